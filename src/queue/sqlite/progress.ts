/** What a running job says before it is done: progress updates and the chunks of a generator. */
import { isFinal, type JobState } from "../../domain/job.ts";
import { STREAM_ANSWER_MAX_BYTES } from "../../domain/limits.ts";
import { ChunkTakers } from "../machine/chunk-takers.ts";
import { type Body, FAILED, type JobRow, stateOf } from "../machine/job-row.ts";
import { jobOfRunning } from "../machine/live-state.ts";
import { costOf, excessOf, runOf } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { Claim, JobProgress } from "../queue.ts";
import { finishJob, held } from "./changes.ts";
import type { QueueCore } from "./core.ts";

/** For a file that is gone. */
const NOTHING = Buffer.from("null");

interface Update {
  readonly fence: number;
  output: Uint8Array;
  stored: Promise<void>;
}

interface ChunkRow {
  readonly seq: number;
  readonly bytes: number;
  readonly body: Body;
}

export function queueProgress(core: QueueCore, bodies: StoredBodies): JobProgress {
  const { sql, files, live } = core;
  /** Job → what its chunks count that are not stored yet. */
  const coming = new Map<string, number>();
  /** Job → the update that waits for earlier ones to be stored. A newer one takes its place. */
  const updates = new Map<string, Update>();
  const takers = new ChunkTakers(core.chunks, (job) => job.chunkBytes === 0 && !coming.has(job.id));

  /** As many chunks behind `after` as fit in an answer, and whether there are more. */
  function next(seq: number, after: number): { readonly rows: ChunkRow[]; readonly more: boolean } {
    const rows: ChunkRow[] = [];
    let bytes = 0;
    for (const row of sql.chunksAfter.iterate(seq, after) as Iterable<unknown> as Iterable<ChunkRow>) {
      bytes += costOf(row.bytes);
      if (bytes > STREAM_ANSWER_MAX_BYTES && rows.length > 0) return { rows, more: true };
      rows.push(row);
    }
    return { rows, more: false };
  }

  /** Chunks not handed out yet, in order; they are gone from the rows when this resolves. */
  async function take({ seq, id, endpoint }: JobRow): Promise<{ chunks: Uint8Array[]; more: boolean; run: number }> {
    const kept: string[] = [];
    try {
      const { rows, more, run } = await core.run(() => {
        const row = sql.meta.get(id) as unknown as JobRow | undefined;
        const found = { ...next(seq, 0), run: row === undefined ? 0 : runOf(row) };
        const last = found.rows.at(-1);
        if (last === undefined) return found;
        sql.takeChunks.run(seq, last.seq);
        live.chunks(live.of(endpoint), id, -found.rows.reduce((sum, { bytes }) => sum + costOf(bytes), 0));
        // From now on no row names their files.
        for (const { body } of found.rows) if (typeof body === "string") files.keep(kept[kept.push(body) - 1]!);
        return found;
      });
      const chunks: Uint8Array[] = [];
      for (const { body } of rows) {
        const bytes = typeof body === "string" ? await files.read(body) : body;
        if (bytes !== undefined) chunks.push(bytes);
      }
      return { chunks, more, run };
    } finally {
      for (const digest of kept) files.release(digest);
    }
  }

  /** As `look` finds them; waits once for the first chunk or the final state. */
  async function heldChunks<T extends { readonly chunks: Uint8Array[]; readonly more: boolean }>(
    jobId: string,
    holdMs: number,
    signal: AbortSignal | undefined,
    look: (row: JobRow) => Promise<T>,
  ): Promise<(Omit<T, "more"> & { readonly state: JobState }) | undefined> {
    for (let waited = false; ; waited = true) {
      const row = sql.meta.get(jobId) as unknown as JobRow | undefined;
      if (row === undefined) return undefined;
      // Read together with the chunks: an answer with a final state carries all that remains.
      const state = stateOf(row);
      const { more, ...found } = await look(row);
      // Who is told a final state asks no more.
      if (more) return { state: "IN_PROGRESS", ...found };
      if (found.chunks.length > 0 || isFinal(state) || waited) return { state, ...found };
      await core.chunks.wait(jobId, holdMs, signal);
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
        sql.progress.run(stored!, job.seq, job.fence);
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
      const cost = costOf(output.byteLength);
      const before = coming.get(jobId) ?? 0;
      const excess = excessOf(core.bounds, running, before + cost);
      if (excess !== undefined) return tooMuch(claim, excess);
      if (takers.handOver(running, output)) return;
      coming.set(jobId, before + cost);
      try {
        await bodies.keep(jobId, [output], ([stored]) =>
          core.run(() => {
            const job = held(core, claim);
            if (job === undefined) return;
            sql.insertChunk.run(job.seq, output.byteLength, stored!);
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
      return heldChunks(jobId, handed === undefined ? holdMs : 0, signal, async (row) =>
        sql.anyChunk.get(row.seq) === undefined ? { chunks: [], more: false, run: runOf(row) } : await take(row),
      );
    },

    readChunks: (jobId, after, holdMs, signal) =>
      heldChunks(jobId, holdMs, signal, async ({ seq }) => {
        const { rows, more } = next(seq, after);
        const read = rows.map(({ body }) => (typeof body === "string" ? files.read(body) : body));
        const chunks = (await Promise.all(read)).map((bytes) => bytes ?? NOTHING);
        return { chunks, numbers: rows.map((row) => row.seq), more };
      }),
  };
}
