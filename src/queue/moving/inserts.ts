/** How moved rows are written to PostgreSQL. */
import { arrayOf, type ColumnType, type ColumnValue } from "../postgres/arrays.ts";
import type { Query } from "../postgres/connection.ts";

/** One statement; none for no rows. `columns`: in the order of the rows' values. */
export async function inserted(
  query: Query,
  table: string,
  columns: Readonly<Record<string, ColumnType>>,
  rows: readonly (readonly ColumnValue[])[],
): Promise<void> {
  if (rows.length === 0) return;
  const names = Object.keys(columns);
  const types = Object.values(columns);
  const arrays = types.map((type, index) =>
    arrayOf(
      type,
      rows.map((row) => row[index]),
    ),
  );
  const places = types.map((type, index) => `$${index + 1}::${type}[]`);
  await query(`INSERT INTO ${table} (${names.join(", ")}) SELECT * FROM unnest(${places.join(", ")})`, arrays);
}

/** A text of PostgreSQL has no NUL. */
export function textOf(text: string): string {
  return text.replaceAll("\0", "\ufffd");
}

/** Throws the first error, when nothing is under way any more. */
export async function eachAtOnce<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const one = async () => {
    for (const item of rest) await work(item);
  };
  const ended = await Promise.allSettled(Array.from({ length: atOnce }, one));
  for (const each of ended) if (each.status === "rejected") throw each.reason;
}
