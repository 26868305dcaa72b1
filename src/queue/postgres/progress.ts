/** What a running job says before it is done: progress updates and the chunks of a generator. */
import { isFinal, type JobState } from "../../domain/job.ts";
import { STREAM_ANSWER_MAX_BYTES } from "../../domain/limits.ts";
import { ChunkTakers } from "../machine/chunk-takers.ts";
import { type Body, FAILED, stateOf } from "../machine/job-row.ts";
import { jobOfRunning } from "../machine/live-state.ts";
import { costOf, excessOf, runOf } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { Claim, JobProgress } from "../queue.ts";
import { finishJob, held } from "./changes.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import { type FoundRow, findRow } from "./rows.ts";

/** For a body that is gone. */
const NOTHING = Buffer.from("null");

interface Update {
  readonly fence: number;
  output: Uint8Array;
  stored: Promise<void>;
}

interface ChunkRow {
  readonly n: number;
  readonly bytes: number;
  readonly body: Uint8Array | null;
  readonly ref: string | null;
}

interface Chunks {
  readonly row: FoundRow;
  readonly rows: readonly ChunkRow[];
  readonly more: boolean;
}

// As many as fit in an answer, and one of those that do not.
const CHUNKS = `SELECT n, bytes, body, ref FROM (
    SELECT n, bytes, body, ref, sum(bytes) OVER (ORDER BY n) - bytes AS before FROM job_chunks WHERE job = $1 AND n > $2
  ) c WHERE before <= ${STREAM_ANSWER_MAX_BYTES} ORDER BY n`;

export function queueProgress(core: PostgresCore, bodies: StoredBodies): JobProgress {
  const { live } = core;
  /** Job → what its chunks count that are not stored yet. */
  const coming = new Map<string, number>();
  const takers = new ChunkTakers(core.chunks, (job) => job.chunkBytes === 0 && !coming.has(job.id));
  /** Job → the update that waits for earlier ones to be stored. A newer one takes its place. */
  const updates = new Map<string, Update>();

  async function chunksOf(query: Query, row: FoundRow, after: number): Promise<Chunks> {
    const found = await query<ChunkRow>(CHUNKS, [row.seq, after]);
    const rows: ChunkRow[] = [];
    let bytes = 0;
    for (const chunk of found) {
      bytes += costOf(chunk.bytes);
      if (bytes > STREAM_ANSWER_MAX_BYTES && rows.length > 0) return { row, rows, more: true };
      rows.push(chunk);
    }
    return { row, rows, more: false };
  }

  /** Chunks not handed out yet, in order; they are gone from the rows when this resolves. */
  async function take(found: FoundRow) {
    const { seq, id, endpoint } = found;
    if (found.chunk_count === 0) return { chunks: [], more: false, run: runOf(found) };
    const kept: string[] = [];
    try {
      const taken = await core.run(
        ({ row, rows, more }: Chunks) => {
          // Another may have taken them in this batch, or the job may have begun anew.
          const until = core.unit.chunksOut.get(seq) ?? 0;
          const left = rows.filter(({ n }) => n > until);
          const last = left.at(-1);
          if (last !== undefined) {
            core.unit.chunksOut.set(seq, last.n);
            const state = live.of(endpoint);
            core.counted(state);
            live.chunks(state, id, -left.reduce((sum, { bytes }) => sum + costOf(bytes), 0));
          }
          for (const { ref } of left) {
            if (ref === null) continue;
            kept.push(ref);
            core.taking.add(ref);
          }
          return { row, rows: left, more, run: runOf(row) };
        },
        { load: async (query) => chunksOf(query, (await findRow(query, id)) ?? found, 0) },
      );
      const chunks: Uint8Array[] = [];
      for (const { body, ref } of taken.rows) {
        const bytes = ref === null ? body! : await core.bodies.read(ref);
        if (bytes !== undefined) chunks.push(bytes);
      }
      return { chunks, more: taken.more, run: taken.run };
    } finally {
      for (const ref of kept) {
        core.taking.delete(ref);
        core.bodies.drop(ref);
      }
    }
  }

  /** As `look` finds them; waits once for the first chunk or the final state. */
  async function heldChunks<T extends { readonly chunks: Uint8Array[]; readonly more: boolean }>(
    jobId: string,
    holdMs: number,
    signal: AbortSignal | undefined,
    look: (row: FoundRow) => Promise<T>,
  ): Promise<(Omit<T, "more"> & { readonly state: JobState }) | undefined> {
    for (let waited = false; ; waited = true) {
      const over = new AbortController();
      const ends = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
      // Waited for before it is looked at: what comes in between is not missed.
      const comes = waited ? undefined : core.chunks.wait(jobId, holdMs, ends);
      try {
        const row = await findRow((text, values) => core.db.read(text, values), jobId);
        if (row === undefined) return undefined;
        // Read before the chunks, and these are read again with a later state: an answer with a final state carries all that remains.
        const state = stateOf(row);
        const { more, ...found } = await look(row);
        // Who is told a final state asks no more.
        if (more) return { state: "IN_PROGRESS", ...found };
        if (found.chunks.length > 0 || isFinal(state) || waited) return { state, ...found };
        await comes;
      } finally {
        over.abort();
      }
    }
  }

  /** The worker is told as of a cancelled job: what it sends from now on is of no use. */
  function tooMuch(claim: Claim, error: string): Promise<void> {
    return core.keep(() => {
      const job = held(core, claim);
      if (job === undefined) return;
      core.cancelled({ jobId: job.id, fence: job.fence, workerId: job.workerId });
      finishJob(core, job, FAILED, null, Buffer.from(error), (finishedAt) =>
        jobOfRunning(job, null, { state: FAILED, error, finishedAt }),
      );
    });
  }

  /** One that cannot be stored is dropped: the next one, or the result, says more. */
  function storeUpdate(claim: Claim, output: Uint8Array): Promise<void> {
    const endpointId = held(core, claim)?.endpoint.id;
    if (endpointId === undefined) return Promise.resolve();
    const write = ([stored]: readonly (Body | null)[]) =>
      core.run(() => {
        const job = held(core, claim);
        if (job === undefined) return;
        core.unit.progress.set(core.record(job.id)!, stored!);
        core.counted(job.endpoint);
        core.named(job.endpoint, stored!);
        core.unnamed(job.endpoint, job.outputFile);
        job.outputFile = typeof stored === "string" ? stored : null;
      });
    return bodies.try(claim.jobId, [output], write, { endpointId, full: async () => {} });
  }

  return {
    progress(claim, output) {
      if (held(core, claim) === undefined) return Promise.resolve();
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
      const running = held(core, claim);
      if (running === undefined) return;
      if (takers.handOver(running, output)) return;
      const cost = costOf(output.byteLength);
      const before = coming.get(jobId) ?? 0;
      const excess = excessOf(core.bounds, running, before + cost);
      if (excess !== undefined) return tooMuch(claim, excess);
      coming.set(jobId, before + cost);
      try {
        await bodies.keep(jobId, [output], ([stored]) =>
          core.run(() => {
            const job = held(core, claim);
            if (job === undefined) return;
            const [bytes, ref] = typeof stored === "string" ? [null, stored] : [stored!, null];
            if (ref !== null) core.bodies.named(ref);
            const n = core.nextSeq(core.shard(job.endpoint));
            core.unit.addChunk(job.seq, [job.seq, n, output.byteLength, bytes, ref]);
            core.counted(job.endpoint);
            live.chunks(job.endpoint, job.id, cost);
            core.chunked(job.id);
          }),
        );
      } finally {
        const rest = coming.get(jobId)! - cost;
        if (rest > 0) coming.set(jobId, rest);
        else coming.delete(jobId);
      }
    },

    async takeChunks(jobId, holdMs, signal) {
      const handed = await takers.wait(live.running.get(jobId), holdMs, signal);
      if (handed !== undefined && handed.chunks.length > 0) return { state: "IN_PROGRESS", ...handed };
      return heldChunks(jobId, handed === undefined ? holdMs : 0, signal, take);
    },

    readChunks: (jobId, after, holdMs, signal) =>
      heldChunks(jobId, holdMs, signal, async (row) => {
        const { rows, more } = await chunksOf((text, values) => core.db.read(text, values), row, after);
        const read = rows.map(async ({ body, ref }) => (ref === null ? body! : await core.bodies.read(ref)));
        const chunks = (await Promise.all(read)).map((bytes) => bytes ?? NOTHING);
        return { chunks, numbers: rows.map(({ n }) => n), more };
      }),
  };
}
