/**
 * Counts of endpoints that are in the journal and not yet in their rows. An entry is the endpoint's number, the counts as COUNTED,
 * and the epoch of its shard: those of an epoch are one writer's, in the order of its batches. Those of an earlier one are in the rows.
 */
import { arrayOf } from "./arrays.ts";
import type { Query } from "./connection.ts";
import { shardOfNumber } from "./ownership.ts";
import { COUNTED, ENDPOINT_UP } from "./statement.ts";

interface Journalled {
  /** By number of the endpoint, which is the first of its entry. */
  readonly counts: ReadonlyMap<number, readonly number[]>;
  /** The last batch of the writer; 0 when there is none. */
  readonly lastBatch: number;
}

/** The last entry of each endpoint whose shard has an epoch. Entries of earlier versions have none: they are of any. */
export async function journalled(
  query: Query,
  epochOf: (shard: number) => number | undefined,
  writer = 0,
): Promise<Journalled> {
  const rows = await query<{ writer: number; n: number; counts: string }>(
    "SELECT epoch AS writer, n, counts FROM queue_journal ORDER BY epoch, n",
  );
  const last = new Map<number, readonly number[]>();
  let lastBatch = 0;
  for (const { counts, ...batch } of rows) {
    if (batch.writer === writer) lastBatch = batch.n;
    for (const entry of JSON.parse(counts) as number[][]) {
      const [number] = entry;
      const of = epochOf(shardOfNumber(number!));
      if (of !== undefined && (entry[COUNTED.length + 1] ?? of) === of)
        last.set(number!, entry.slice(0, COUNTED.length + 1));
    }
  }
  return { counts: last, lastBatch };
}

const KEYS = ENDPOINT_UP.columns.map(({ type }, index) => `$${index + 1}::${type}[]`).join(", ");
const NAMES = ENDPOINT_UP.columns.map(({ name }) => name).join(", ");
/** Of the parameters that countColumns makes. */
export const STORE_COUNTS = `UPDATE queue_endpoints o SET ${COUNTED.map((name) => `${name} = t.${name}`).join(", ")}
  FROM unnest(${KEYS}) t(${NAMES}) WHERE o.number = t.number`;

/** Of counts, each behind its endpoint's number. */
export function countColumns(counts: readonly (readonly number[])[]): unknown[] {
  return ENDPOINT_UP.columns.map(({ type, of }) => arrayOf(type, counts.map(of)));
}

/** Brings counts to the rows. */
export async function storeCounts(query: Query, counts: readonly (readonly number[])[]): Promise<void> {
  if (counts.length > 0) await query(STORE_COUNTS, countColumns(counts));
}
