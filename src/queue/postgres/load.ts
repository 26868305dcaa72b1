/** What the queue keeps in memory, read from its rows. */
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import { DELAYED, IN_QUEUE } from "../machine/job-row.ts";
import type { StoredState } from "../machine/live-state.ts";
import type { Query } from "./connection.ts";
import { journalledBy } from "./journal.ts";
import { inShards } from "./ownership.ts";
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
  /** Who loads: nobody else has counts of its shards in the journal, and its last batch is looked for. undefined: of whoever has them. */
  readonly writer: number | undefined;
}

/** By indexes, whatever is believed of the tables' sizes; to compile a statement would take longer than it does. */
export const LOOK_UP = `SELECT ${["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"].map((name) => `set_config('${name}', 'off', true)`).join(", ")}`;

/** What each of the statements of a load reads, `of` being a condition on a number. For a test that explains them. */
export const LOADS = {
  endpoints: (of: string) => `SELECT * FROM queue_endpoints${of && ` WHERE ${of}`}`,
  running: (of: string) => `SELECT ${OPEN} FROM open_jobs WHERE state = 1${of && ` AND ${of}`}`,
  files: (of: string) =>
    `SELECT endpoint, ARRAY[input_ref, output_ref] AS refs FROM open_jobs
       WHERE (input_ref IS NOT NULL OR output_ref IS NOT NULL)${of && ` AND ${of}`}
     UNION ALL SELECT endpoint, ARRAY[input_ref, output_ref, error_ref] FROM done_jobs
       WHERE (input_ref IS NOT NULL OR output_ref IS NOT NULL OR error_ref IS NOT NULL)${of && ` AND ${of}`}`,
  streams: (of: string) =>
    `WITH c AS MATERIALIZED (SELECT job AS seq, count(*) AS chunks, sum(bytes)::int8 AS bytes FROM job_chunks${of && ` WHERE ${of.replace("seq", "job")}`} GROUP BY job)
     SELECT j.id, j.endpoint, c.chunks, c.bytes FROM c JOIN open_jobs j USING (seq)
     UNION ALL SELECT j.id, j.endpoint, c.chunks, c.bytes FROM c JOIN done_jobs j USING (seq)`,
};

/** `query`: of statements that see the same, for another may take the shards meanwhile and write. */
export async function loadState(query: Query, { epochOf, shards, writer }: LoadScope): Promise<LoadedState> {
  const of = (number: string) => (shards === undefined ? "" : inShards(number, shards));
  await query(LOOK_UP);
  const endpoints = await query<EndpointRow>(LOADS.endpoints(of("number")));
  const { counts, lastBatch } = await journalledBy(query, epochOf, writer);
  const byNumber = new Map(endpoints.map((row) => [row.number, { ...row }]));
  for (const [number, [, ...values]] of counts) {
    const row = byNumber.get(number);
    if (row !== undefined) for (const [index, name] of COUNTED.entries()) row[name] = values[index]!;
  }
  // What lost its endpoint, as earlier versions left some, is nobody's, and keeps nothing else from being read.
  const ofEndpoints = async <Row extends { readonly endpoint: number }>(load: string) =>
    (await query<Row>(load)).filter(({ endpoint }) => byNumber.has(endpoint));
  const runningRows = await ofEndpoints<ReadRow>(LOADS.running(of("seq")));
  const files = await ofEndpoints<{ endpoint: number; refs: (string | null)[] }>(LOADS.files(of("seq")));
  const streams = await ofEndpoints<{ id: string; endpoint: number; chunks: number; bytes: number }>(
    LOADS.streams(of("seq")),
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
    // The journal has those that were removed since, too.
    journalled: new Set([...counts.keys()].filter((number) => byNumber.has(number))),
    lastBatch,
  };
}
