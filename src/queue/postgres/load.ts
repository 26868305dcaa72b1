/** What the queue keeps in memory, read from its rows. */
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import { DELAYED, IN_QUEUE } from "../machine/job-row.ts";
import type { StoredState } from "../machine/live-state.ts";
import type { Query } from "./connection.ts";
import { journalled } from "./journal.ts";
import { shardOfNumber } from "./ownership.ts";
import type { ReadRow } from "./records.ts";
import { OPEN } from "./rows.ts";
import { COUNTED } from "./statement.ts";

type EndpointRow = { readonly number: number; readonly id: string } & Record<(typeof COUNTED)[number], number>;

export interface LoadedState extends StoredState {
  readonly runningRows: readonly ReadRow[];
  /** Endpoints whose counts are in the journal, and older in their rows. */
  readonly journalled: ReadonlySet<number>;
  /** The last batch of the writer that was carried out; 0 when there is none. */
  readonly lastBatch: number;
}

/** Which shards are read: `epochOf` has those alone. */
export interface LoadScope {
  readonly epochOf: (shard: number) => number | undefined;
  /** undefined: all. */
  readonly shards: readonly number[] | undefined;
  /** Whose last batch is looked for. */
  readonly writer?: number;
}

/** `query`: of statements that see the same, for another may take the shards meanwhile and write. */
export async function loadState(query: Query, { epochOf, shards, writer }: LoadScope): Promise<LoadedState> {
  const of = (number: string, and = "AND") =>
    shards === undefined ? "" : `${and} (${number} & 255) = ANY('{${shards.join(",")}}')`;
  const endpoints = await query<EndpointRow>(`SELECT * FROM queue_endpoints ${of("number", "WHERE")}`);
  const { counts, lastBatch } = await journalled(query, epochOf, writer);
  const byNumber = new Map(endpoints.map((row) => [row.number, { ...row }]));
  for (const [number, [, ...values]] of counts) {
    const row = byNumber.get(number);
    if (row !== undefined) for (const [index, name] of COUNTED.entries()) row[name] = values[index]!;
  }
  const runningRows = await query<ReadRow>(`SELECT ${OPEN} FROM open_jobs WHERE state = 1 ${of("seq")}`);
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
  const rows = [...byNumber.values()];
  const here = shards && new Set(shards);
  const isHere = ({ endpoint }: { readonly endpoint: number }) => here?.has(shardOfNumber(endpoint)) ?? true;
  return {
    endpoints: rows,
    counts: rows.flatMap(({ number: endpoint, in_queue, in_queue_low, delayed }) => [
      { endpoint, state: IN_QUEUE, lowPriority: false, n: in_queue - in_queue_low },
      { endpoint, state: IN_QUEUE, lowPriority: true, n: in_queue_low },
      { endpoint, state: DELAYED, lowPriority: false, n: delayed },
    ]),
    running: runningRows.map((row) => ({ ...row, outputFile: row.output_ref })),
    runningRows,
    files: files
      .filter(isHere)
      .flatMap(({ endpoint, refs }) =>
        refs.flatMap((reference) => (reference === null ? [] : [{ endpoint, reference }])),
      ),
    streams: streams.filter(isHere).map(({ id, endpoint, chunks, bytes }) => {
      return { id, endpoint, bytes: bytes + chunks * STREAM_CHUNK_COST_BYTES };
    }),
    journalled: new Set(counts.keys()),
    lastBatch,
  };
}
