/** What the queue keeps in memory, read from its rows. */
import type { StatementSync } from "node:sqlite";
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import type { JobRow } from "../machine/job-row.ts";
import type { StoredState } from "../machine/live-state.ts";
import type { Statements } from "./statements.ts";

/** `lone`: numbers of endpoints that are gone, of which jobs are there. */
export function storedState(sql: Statements): StoredState & { readonly lone: ReadonlySet<number> } {
  type Endpoint = StoredState["endpoints"] extends Iterable<infer One> ? One : never;
  type Count = { endpoint: number; low_priority?: number; state: number; n: number };
  type Stream = { id: string; endpoint: number; chunks: number; bytes: number };
  type File = { endpoint: number; reference: string };
  const endpoints = sql.endpoints.all() as unknown as Endpoint[];
  const known = new Set(endpoints.map(({ number }) => number));
  // What lost its endpoint, as earlier versions left some, is nobody's, and keeps nothing else from being read.
  const lone = new Set<number>();
  const ofEndpoints = <Row extends { readonly endpoint: number }>(...reads: readonly StatementSync[]) =>
    (reads.flatMap((read) => read.all()) as unknown as Row[]).filter(({ endpoint }) => {
      if (!known.has(endpoint)) lone.add(endpoint);
      return known.has(endpoint);
    });
  const counts = ofEndpoints<Count>(sql.queuedCounts, sql.delayedCounts, sql.finalCounts);
  return {
    lone,
    endpoints,
    counts: counts.map(({ endpoint, low_priority, state, n }) => {
      return { endpoint, state, lowPriority: low_priority === 1, n };
    }),
    running: ofEndpoints<JobRow & { outputFile: string | null }>(sql.runningRows),
    files: ofEndpoints<File>(sql.fileReferences),
    streams: ofEndpoints<Stream>(sql.chunkBytes).map(({ id, endpoint, chunks, bytes }) => {
      return { id, endpoint, bytes: bytes + chunks * STREAM_CHUNK_COST_BYTES };
    }),
  };
}

/** Deletes all jobs of these endpoints, which are gone: nothing in memory counts them. */
export function deleteLone(sql: Statements, lone: ReadonlySet<number>): void {
  try {
    for (const endpoint of lone) {
      sql.deleteLoneChunks.run(endpoint);
      sql.deleteLone.run(endpoint);
    }
  } catch {
    // As on a full disk: the next start does it.
  }
}

/** The highest number that a job ever had. */
export function lastSeq(sql: Statements): number {
  const highest = [sql.maxSeq, sql.maxExpiredSeq].map((max) => (max.get() as { seq: number | null }).seq ?? 0);
  return Math.max(...highest);
}
