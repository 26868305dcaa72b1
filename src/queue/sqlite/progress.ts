/** Rows of what a running job says: its last update, and its chunks. */
import type { Body, JobRow } from "../machine/job-row.ts";
import type { ProgressRows } from "../machine/progress.ts";
import { costOf, fitting, runOf } from "../machine/refusals.ts";
import type { QueueCore } from "./core.ts";

interface ChunkRow {
  readonly seq: number;
  readonly bytes: number;
  readonly body: Body;
}

export function progressRows(core: QueueCore): ProgressRows<JobRow> {
  const { sql, files, live } = core;

  /** Read no further than they fit in an answer. */
  function next(seq: number, after: number, chunkMaxBytes: number) {
    return fitting(sql.chunksAfter.iterate(seq, after) as Iterable<unknown> as Iterable<ChunkRow>, chunkMaxBytes);
  }

  return {
    find: async (jobId) => sql.meta.get(jobId) as unknown as JobRow | undefined,

    storeUpdate(job, stored) {
      sql.progress.run(stored, job.seq, job.fence);
    },

    addChunk(job, bytes, stored) {
      sql.insertChunk.run(job.seq, bytes, stored);
    },

    async take(row, chunkMaxBytes) {
      const { seq, id, endpoint } = row;
      if (sql.anyChunk.get(seq) === undefined) return { chunks: [], more: false, run: runOf(row) };
      const kept: string[] = [];
      try {
        const { rows, ...taken } = await core.run(() => {
          const now = sql.meta.get(id) as unknown as JobRow | undefined;
          const found = { ...next(seq, 0, chunkMaxBytes), run: now === undefined ? 0 : runOf(now) };
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
        return { chunks, ...taken };
      } finally {
        for (const digest of kept) files.release(digest);
      }
    },

    async read({ seq }, after, chunkMaxBytes) {
      const { rows, ...read } = next(seq, after, chunkMaxBytes);
      const chunks = await Promise.all(rows.map(({ body }) => (typeof body === "string" ? files.read(body) : body)));
      return { chunks, numbers: rows.map((row) => row.seq), ...read };
    },
  };
}
