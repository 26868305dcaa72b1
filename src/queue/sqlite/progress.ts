/** What a running job says before it is done: progress updates and the chunks of a generator. */
import { isFinal, JOB_STATES } from "../../domain/job.ts";
import type { JobProgress } from "../queue.ts";
import { held } from "./changes.ts";
import type { QueueCore } from "./core.ts";
import type { Body, JobRow } from "./statements.ts";
import type { StoredBodies } from "./stored-bodies.ts";

export function queueProgress(core: QueueCore, bodies: StoredBodies): JobProgress {
  const { sql, files } = core;

  /** Chunks not handed out yet, in order; they are gone from the rows when this resolves. */
  async function take(seq: number): Promise<Uint8Array[]> {
    const taken = await core.run(() => {
      const rows = sql.takeChunks.all(seq) as unknown as { seq: number; body: Body }[];
      return rows.sort((a, b) => a.seq - b.seq).map(({ body }) => body);
    });
    const chunks: Uint8Array[] = [];
    for (const body of taken) {
      const bytes = typeof body === "string" ? await files.read(body) : body;
      if (bytes !== undefined) chunks.push(bytes);
      if (typeof body === "string") files.dropped(body);
    }
    return chunks;
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

    async takeChunks(jobId, holdMs, signal) {
      for (let waited = false; ; waited = true) {
        const row = sql.meta.get(jobId) as unknown as JobRow | undefined;
        if (row === undefined) return undefined;
        // Read together with the chunks: an answer with a final state carries all that remains.
        const state = JOB_STATES[row.state]!;
        if (sql.anyChunk.get(row.seq) !== undefined) return { state, chunks: await take(row.seq) };
        if (isFinal(state) || waited) return { state, chunks: [] };
        await core.chunks.wait(jobId, holdMs, signal);
      }
    },
  };
}
