/** What a running job says before it is done, whatever database keeps it: progress updates and the chunks of a generator. */
import { isFinal, type JobState } from "../../domain/job.ts";
import type { Claim, JobProgress } from "../queue.ts";
import { ChunkTakers } from "./chunk-takers.ts";
import { type Body, type JobRow, stateOf } from "./job-row.ts";
import type { RunningJob } from "./live-state.ts";
import type { QueueMachine } from "./machine.ts";
import { costOf, excessOf, type Fitting } from "./refusals.ts";
import type { RunningJobs } from "./running-jobs.ts";
import type { StoredBodies } from "./stored-bodies.ts";

/** For a body that is gone. */
const NOTHING = Buffer.from("null");

export interface ProgressRows<Row extends JobRow> {
  find(jobId: string): Promise<Row | undefined>;
  /** Part of a batch. */
  storeUpdate(job: RunningJob, stored: Body): void;
  /** Part of a batch. */
  addChunk(job: RunningJob, bytes: number, stored: Body): void;
  /** Chunks not handed out yet, in order; they are gone from the rows when this resolves. */
  take(row: Row, chunkMaxBytes: number): Promise<Found & { readonly chunks: Uint8Array[]; readonly run: number }>;
  /** Chunks behind a number, in order; undefined for one whose bytes are gone. */
  read(
    row: Row,
    after: number,
    chunkMaxBytes: number,
  ): Promise<Found & { readonly chunks: readonly (Uint8Array | undefined)[]; readonly numbers: number[] }>;
}

type Found = Omit<Fitting<never>, "rows">;

interface Update {
  readonly fence: number;
  output: Uint8Array;
  stored: Promise<void>;
}

export function jobProgress<Row extends JobRow>(
  machine: QueueMachine,
  bodies: StoredBodies,
  jobs: RunningJobs,
  rows: ProgressRows<Row>,
): JobProgress {
  const { live } = machine;
  /** Job → what its chunks count that are not stored yet. */
  const coming = new Map<string, number>();
  /** Job → the update that waits for earlier ones to be stored. A newer one takes its place. */
  const updates = new Map<string, Update>();
  const takers = new ChunkTakers(machine.chunks, (job) => job.chunkBytes === 0 && !coming.has(job.id));

  /** As `look` finds them; waits once for the first chunk or the final state. */
  async function heldChunks<T extends { readonly chunks: Uint8Array[]; readonly more: boolean }>(
    jobId: string,
    holdMs: number,
    signal: AbortSignal | undefined,
    look: (row: Row) => Promise<T>,
  ): Promise<(Omit<T, "more"> & { readonly state: JobState }) | undefined> {
    for (let waited = false; ; waited = true) {
      // Waited for before it is looked at: what comes in between is not missed.
      const waits = waited ? undefined : machine.chunks.begin(jobId, holdMs, signal);
      try {
        const row = await rows.find(jobId);
        if (row === undefined) return undefined;
        // Read before the chunks: an answer with a final state carries all that remains.
        const state = stateOf(row);
        const { more, ...found } = await look(row);
        // Who is told a final state asks no more.
        if (more) return { state: "IN_PROGRESS", ...found };
        if (found.chunks.length > 0 || isFinal(state) || waited) return { state, ...found };
        await waits?.comes;
      } finally {
        waits?.end();
      }
    }
  }

  /** The worker is told as of a cancelled job: what it sends from now on is of no use. */
  function tooMuch(claim: Claim, error: string): Promise<void> {
    return machine.keep(() => {
      const job = live.held(claim);
      if (job === undefined) return;
      machine.cancelled({ jobId: job.id, fence: job.fence, workerId: job.workerId });
      jobs.fail(job, error);
    });
  }

  /** One that cannot be stored is dropped: the next one, or the result, says more. */
  function storeUpdate(claim: Claim, output: Uint8Array): Promise<void> {
    const endpointId = live.held(claim)?.endpoint.id;
    if (endpointId === undefined) return Promise.resolve();
    const write = ([stored]: readonly (Body | null)[]) =>
      machine.run(() => {
        const job = live.held(claim);
        if (job === undefined) return;
        rows.storeUpdate(job, stored!);
        machine.named(job.endpoint, stored!);
        machine.unnamed(job.endpoint, job.outputFile);
        job.outputFile = typeof stored === "string" ? stored : null;
      });
    return bodies.try(claim.jobId, [output], write, { endpointId, full: async () => {} });
  }

  return {
    progress(claim, output) {
      if (live.held(claim) === undefined) return Promise.resolve();
      const { jobId, fence } = claim;
      const waiting = updates.get(jobId);
      if (waiting?.fence === fence) {
        waiting.output = output;
        return waiting.stored;
      }
      const before = bodies.underWay(jobId);
      if (before === undefined) return storeUpdate(claim, output);
      const update: Update = { fence, output, stored: Promise.resolve() };
      updates.set(jobId, update);
      update.stored = before.then(() => {
        if (updates.get(jobId) === update) updates.delete(jobId);
        return storeUpdate(claim, update.output);
      });
      return update.stored;
    },

    async chunk(claim, output) {
      const { jobId } = claim;
      const running = live.held(claim);
      if (running === undefined) return;
      const cost = costOf(output.byteLength);
      const before = coming.get(jobId) ?? 0;
      const excess = excessOf(machine.bounds, running, before + cost);
      if (excess !== undefined) return tooMuch(claim, excess);
      if (takers.pass(running, output) || takers.handOver(running, output)) return;
      coming.set(jobId, before + cost);
      try {
        await bodies.keep(jobId, [output], ([stored]) =>
          machine.run(() => {
            const job = live.held(claim);
            if (job === undefined) return;
            rows.addChunk(job, output.byteLength, stored!);
            live.chunks(job.endpoint, job.id, cost);
            machine.chunked(job.id);
          }),
        );
      } finally {
        const rest = coming.get(jobId)! - cost;
        if (rest > 0) coming.set(jobId, rest);
        else coming.delete(jobId);
      }
    },

    passChunk(claim, output) {
      const running = live.held(claim);
      if (running === undefined || excessOf(machine.bounds, running, costOf(output.byteLength)) !== undefined)
        return false;
      return takers.pass(running, output);
    },

    followChunks: (jobId, run, holdMs, take, signal) =>
      takers.follow(live.running.get(jobId), { run, take }, holdMs, signal),

    async takeChunks(jobId, holdMs, signal, chunkMaxBytes = Number.POSITIVE_INFINITY) {
      const handed = await takers.wait(live.running.get(jobId), holdMs, signal, chunkMaxBytes);
      if (handed !== undefined && handed.chunks.length > 0) return { state: "IN_PROGRESS", ...handed };
      return heldChunks(jobId, handed === undefined ? holdMs : 0, signal, (row) => rows.take(row, chunkMaxBytes));
    },

    readChunks: (jobId, after, holdMs, signal, chunkMaxBytes = Number.POSITIVE_INFINITY) =>
      heldChunks(jobId, holdMs, signal, async (row) => {
        const { chunks, ...read } = await rows.read(row, after, chunkMaxBytes);
        return { chunks: chunks.map((bytes) => bytes ?? NOTHING), ...read };
      }),
  };
}
