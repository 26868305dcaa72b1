/** What a running job says before it is done: progress updates and the chunks of a generator. */
import { isFinal, JOB_STATES, type JobState } from "../../domain/job.ts";
import type { JobProgress } from "../queue.ts";
import { held } from "./changes.ts";
import type { QueueCore } from "./core.ts";
import type { Body, JobRow } from "./statements.ts";
import type { StoredBodies } from "./stored-bodies.ts";

/** For a file that is gone. */
const NOTHING = Buffer.from("null");

export function queueProgress(core: QueueCore, bodies: StoredBodies): JobProgress {
  const { sql, files } = core;

  /** Chunks not handed out yet, in order; they are gone from the rows when this resolves. */
  async function take(seq: number): Promise<Uint8Array[]> {
    const kept: string[] = [];
    try {
      const taken = await core.run(() => {
        const rows = sql.takeChunks.all(seq) as unknown as { seq: number; body: Body }[];
        // From now on no row names their files.
        for (const { body } of rows) if (typeof body === "string") files.keep(kept[kept.push(body) - 1]!);
        return rows.sort((a, b) => a.seq - b.seq).map(({ body }) => body);
      });
      const chunks: Uint8Array[] = [];
      for (const body of taken) {
        const bytes = typeof body === "string" ? await files.read(body) : body;
        if (bytes !== undefined) chunks.push(bytes);
      }
      return chunks;
    } finally {
      for (const digest of kept) files.release(digest);
    }
  }

  /** As `look` finds them; waits once for the first chunk or the final state. */
  async function heldChunks<T extends { readonly chunks: Uint8Array[] }>(
    jobId: string,
    holdMs: number,
    signal: AbortSignal | undefined,
    look: (seq: number) => Promise<T>,
  ): Promise<(T & { readonly state: JobState }) | undefined> {
    for (let waited = false; ; waited = true) {
      const row = sql.meta.get(jobId) as unknown as JobRow | undefined;
      if (row === undefined) return undefined;
      // Read together with the chunks: an answer with a final state carries all that remains.
      const state = JOB_STATES[row.state]!;
      const found = await look(row.seq);
      if (found.chunks.length > 0 || isFinal(state) || waited) return { state, ...found };
      await core.chunks.wait(jobId, holdMs, signal);
    }
  }

  return {
    progress: (claim, output) =>
      bodies.store(claim.jobId, [output], ([stored]) =>
        core.run(() => {
          const job = held(core, claim);
          if (job === undefined) return;
          sql.progress.run(stored!, job.seq, job.fence);
          if (job.outputFile !== null) files.dropped(job.outputFile);
          job.outputFile = typeof stored === "string" ? stored : null;
        }),
      ),

    chunk: (claim, output) =>
      bodies.store(claim.jobId, [output], ([stored]) =>
        core.run(() => {
          const job = held(core, claim);
          if (job === undefined) return;
          sql.insertChunk.run(job.seq, stored!);
          core.chunked(job.id);
        }),
      ),

    takeChunks: (jobId, holdMs, signal) =>
      heldChunks(jobId, holdMs, signal, async (seq) => ({
        chunks: sql.anyChunk.get(seq) === undefined ? [] : await take(seq),
      })),

    readChunks: (jobId, after, holdMs, signal) =>
      heldChunks(jobId, holdMs, signal, async (seq) => {
        const rows = sql.chunksAfter.all(seq, after) as unknown as { seq: number; body: Body }[];
        const read = rows.map(({ body }) => (typeof body === "string" ? files.read(body) : body));
        const chunks = (await Promise.all(read)).map((bytes) => bytes ?? NOTHING);
        return { chunks, numbers: rows.map((row) => row.seq) };
      }),
  };
}
