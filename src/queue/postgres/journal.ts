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
): Promise<Journalled["counts"]> {
  return countsIn(await query<Entry>("SELECT n, counts FROM queue_journal ORDER BY epoch, n"), epochOf);
}

/** As journalled, of one writer where it is known: nobody else has entries of its epochs. */
export async function journalledBy(
  query: Query,
  epochOf: (shard: number) => number | undefined,
  writer: number | undefined,
): Promise<Journalled> {
  if (writer === undefined) return { counts: await journalled(query, epochOf), lastBatch: 0 };
  const rows = await query<Entry>("SELECT n, counts FROM queue_journal WHERE epoch = $1 ORDER BY n", [writer]);
  return { counts: countsIn(rows, epochOf), lastBatch: rows.at(-1)?.n ?? 0 };
}

interface Entry {
  readonly n: number;
  readonly counts: string;
}

function countsIn(
  rows: readonly Entry[],
  epochOf: (shard: number) => number | undefined,
): Map<number, readonly number[]> {
  const last = new Map<number, readonly number[]>();
  for (const { counts } of rows) {
    for (const entry of JSON.parse(counts) as number[][]) {
      const [number] = entry;
      const of = epochOf(shardOfNumber(number!));
      if (of !== undefined && (entry[COUNTED.length + 1] ?? of) === of)
        last.set(number!, entry.slice(0, COUNTED.length + 1));
    }
  }
  return last;
}

/**
 * Whether the database still has a writer's last batch, or a later one: a standby that took over may lack it, and then what is in memory
 * is not what is in the rows. Of a writer without shards nothing is kept, which says nothing.
 */
export const hasTail = (writer: string, n: string): string =>
  `(${ownsTail(writer, n)} OR NOT EXISTS (SELECT FROM queue_shards WHERE writer = ${writer}::int8))`;
/** The same of a writer that has a shard. */
export const ownsTail = (writer: string, n: string): string =>
  `(${n}::int8 = 0 OR EXISTS (SELECT FROM queue_journal WHERE epoch = ${writer}::int8 AND n >= ${n}::int8))`;

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
