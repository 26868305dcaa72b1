/** Rows of what a running job says: its last update, and its chunks. */
import { STREAM_ANSWER_MAX_BYTES } from "../../domain/limits.ts";
import type { ProgressRows } from "../machine/progress.ts";
import { costOf, type Fitting, fitting, runOf } from "../machine/refusals.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import { type FoundRow, findRow } from "./rows.ts";

interface ChunkRow {
  readonly n: number;
  readonly bytes: number;
  readonly body: Uint8Array | null;
  readonly ref: string | null;
}

interface Chunks extends Fitting<ChunkRow> {
  readonly row: FoundRow;
}

// As many as fit in an answer, and one of those that do not.
const CHUNKS = `SELECT n, bytes, body, ref FROM (
    SELECT n, bytes, body, ref, sum(bytes) OVER (ORDER BY n) - bytes AS before FROM job_chunks WHERE job = $1 AND n > $2
  ) c WHERE before <= ${STREAM_ANSWER_MAX_BYTES} ORDER BY n`;

export function progressRows(core: PostgresCore): ProgressRows<FoundRow> {
  const { live } = core;
  const read: Query = (text, values) => core.db.read(text, values);

  async function chunksOf(query: Query, row: FoundRow, after: number, chunkMaxBytes: number): Promise<Chunks> {
    return { row, ...fitting(await query<ChunkRow>(CHUNKS, [row.seq, after]), chunkMaxBytes) };
  }

  async function bytesOf({ body, ref }: ChunkRow): Promise<Uint8Array | undefined> {
    return ref === null ? body! : core.bodies.read(ref);
  }

  async function take(found: FoundRow, chunkMaxBytes: number) {
    core.checkNumber(found.endpoint);
    const { seq, id, endpoint } = found;
    if (found.chunk_count === 0) return { chunks: [], more: false, run: runOf(found) };
    const kept: string[] = [];
    let isTaken = false;
    try {
      const { rows: taken, ...rest } = await core.run(
        ({ row, rows, ...found }: Chunks) => {
          core.checkNumber(endpoint);
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
          return { rows: left, ...found, run: runOf(row) };
        },
        { load: async (query) => chunksOf(query, (await findRow(query, id)) ?? found, 0, chunkMaxBytes) },
      );
      isTaken = true;
      const chunks: Uint8Array[] = [];
      for (const row of taken) {
        const bytes = await bytesOf(row);
        if (bytes !== undefined) chunks.push(bytes);
      }
      return { chunks, ...rest };
    } finally {
      for (const ref of kept) {
        core.taking.delete(ref);
        // The rows of another platform, which has the job by now, may still name it.
        if (isTaken) core.bodies.drop(ref);
      }
    }
  }

  return {
    find: (jobId) => findRow(read, jobId),

    storeUpdate(job, stored) {
      core.unit.progress.set(core.record(job.id)!, stored);
      core.counted(job.endpoint);
    },

    addChunk(job, bytes, stored) {
      const [body, ref] = typeof stored === "string" ? [null, stored] : [stored, null];
      if (ref !== null) core.bodies.named(ref);
      const n = core.nextSeq(core.shard(job.endpoint));
      core.unit.addChunk(job.seq, [job.seq, n, bytes, body, ref]);
      core.counted(job.endpoint);
    },

    take,

    async read(row, after, chunkMaxBytes) {
      core.checkNumber(row.endpoint);
      const { row: _, rows, ...found } = await chunksOf(read, row, after, chunkMaxBytes);
      return { chunks: await Promise.all(rows.map(bytesOf)), numbers: rows.map(({ n }) => n), ...found };
    },
  };
}
