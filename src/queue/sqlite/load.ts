/** What the queue keeps in memory, read from its rows. */
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import type { JobRow } from "../machine/job-row.ts";
import type { StoredState } from "../machine/live-state.ts";
import type { Statements } from "./statements.ts";

export function storedState(sql: Statements): StoredState {
  type Count = { endpoint: number; low_priority?: number; state: number; n: number };
  type Stream = { id: string; endpoint: number; chunks: number; bytes: number };
  const counts = [sql.queuedCounts, sql.delayedCounts, sql.finalCounts].flatMap((counted) => counted.all());
  return {
    endpoints: sql.endpoints.all() as unknown as StoredState["endpoints"],
    counts: (counts as unknown as Count[]).map(({ endpoint, low_priority, state, n }) => {
      return { endpoint, state, lowPriority: low_priority === 1, n };
    }),
    running: sql.runningRows.all() as unknown as (JobRow & { outputFile: string | null })[],
    files: sql.fileReferences.all() as unknown as StoredState["files"],
    streams: (sql.chunkBytes.all() as unknown as Stream[]).map(({ id, endpoint, chunks, bytes }) => {
      return { id, endpoint, bytes: bytes + chunks * STREAM_CHUNK_COST_BYTES };
    }),
  };
}

/** The highest number that a job ever had. */
export function lastSeq(sql: Statements): number {
  const highest = [sql.maxSeq, sql.maxExpiredSeq].map((max) => (max.get() as { seq: number | null }).seq ?? 0);
  return Math.max(...highest);
}
