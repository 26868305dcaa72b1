/** What the queue keeps in memory, read from its rows. */
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import { DELAYED, IN_QUEUE } from "../machine/job-row.ts";
import type { StoredState } from "../machine/live-state.ts";
import type { Query } from "./connection.ts";
import type { ReadRow } from "./records.ts";
import { OPEN } from "./rows.ts";

/** Counts of an endpoint, in the order in which the journal has them behind its number. */
export const COUNTED = ["in_queue", "in_queue_low", "delayed", "completed", "failed", "retried"] as const;
type EndpointRow = { readonly number: number; readonly id: string } & Record<(typeof COUNTED)[number], number>;

export interface LoadedState extends StoredState {
  readonly runningRows: readonly ReadRow[];
  readonly lastSeq: number;
  /** Whether batches have counts that are not in the endpoints' rows. */
  readonly isJournalled: boolean;
}

/** `query`: of a connection whose statements see the same. */
export async function loadState(query: Query): Promise<LoadedState> {
  const endpoints = await query<EndpointRow>("SELECT * FROM queue_endpoints");
  const journal = await query<{ counts: string }>("SELECT counts FROM queue_journal ORDER BY epoch, n");
  const byNumber = new Map(endpoints.map((row) => [row.number, { ...row }]));
  for (const { counts } of journal) {
    for (const [number, ...values] of JSON.parse(counts) as number[][]) {
      const row = byNumber.get(number!);
      if (row !== undefined) for (const [index, name] of COUNTED.entries()) row[name] = values[index]!;
    }
  }
  const runningRows = await query<ReadRow>(`SELECT ${OPEN} FROM open_jobs WHERE state = 1`);
  const files = await query<{ endpoint: number; refs: (string | null)[] }>(
    `SELECT endpoint, ARRAY[input_ref, output_ref] AS refs FROM open_jobs WHERE input_ref IS NOT NULL OR output_ref IS NOT NULL
     UNION ALL SELECT endpoint, ARRAY[input_ref, output_ref, error_ref] FROM done_jobs
       WHERE input_ref IS NOT NULL OR output_ref IS NOT NULL OR error_ref IS NOT NULL`,
  );
  const streams = await query<{ id: string; endpoint: number; chunks: number; bytes: number }>(
    `WITH c AS (SELECT job, count(*) AS chunks, sum(bytes)::int8 AS bytes FROM job_chunks GROUP BY job)
     SELECT j.id, j.endpoint, c.chunks, c.bytes FROM c JOIN open_jobs j ON j.seq = c.job
     UNION ALL SELECT j.id, j.endpoint, c.chunks, c.bytes FROM c JOIN done_jobs j ON j.seq = c.job`,
  );
  const [{ last } = { last: 0 }] = await query<{ last: number }>(
    `SELECT greatest((SELECT max(last_seq) FROM queue_journal), (SELECT max(seq) FROM open_jobs), 0)::int8 AS last`,
  );
  const rows = [...byNumber.values()];
  return {
    endpoints: rows,
    counts: rows.flatMap(({ number: endpoint, in_queue, in_queue_low, delayed }) => [
      { endpoint, state: IN_QUEUE, lowPriority: false, n: in_queue - in_queue_low },
      { endpoint, state: IN_QUEUE, lowPriority: true, n: in_queue_low },
      { endpoint, state: DELAYED, lowPriority: false, n: delayed },
    ]),
    running: runningRows.map((row) => ({ ...row, outputFile: row.output_ref })),
    runningRows,
    files: files.flatMap(({ endpoint, refs }) =>
      refs.flatMap((reference) => (reference === null ? [] : [{ endpoint, reference }])),
    ),
    streams: streams.map(({ id, endpoint, chunks, bytes }) => {
      return { id, endpoint, bytes: bytes + chunks * STREAM_CHUNK_COST_BYTES };
    }),
    lastSeq: last,
    isJournalled: journal.length > 0,
  };
}
