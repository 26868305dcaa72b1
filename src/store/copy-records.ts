/**
 * All records of a store into another database, row for row: what is sealed stays sealed. One transaction, which may be carried
 * out again; what is in the target is replaced.
 */
import { createHash } from "node:crypto";
import { type Kysely, type Selectable, sql } from "kysely";
import { MOVE_ROWS_AT_ONCE } from "../domain/limits.ts";
import { isPostgres, WRITER_LOCK } from "./postgres-migrations.ts";
import type { Tables } from "./tables.ts";

type Table = keyof Tables;
// biome-ignore lint/suspicious/noExplicitAny: a row of whichever table.
type Rows = Kysely<any>;

/** Every table with its key, those that are referred to first. */
const KEYS: Readonly<Record<Table, readonly string[]>> = {
  apps: ["id"],
  environments: ["id"],
  builds: ["id"],
  endpoints: ["id"],
  workers: ["id"],
  apiKeys: ["id"],
  consoleSessions: ["id"],
  secrets: ["environmentId", "name"],
  templates: ["id"],
  deploys: ["id"],
  audit: ["id"],
  registryAuths: ["id"],
  networkVolumes: ["id"],
  alerts: ["id"],
  hosts: ["id"],
  hostTokens: ["id"],
};
/** Their keys are numbers that the database gives. */
const NUMBERED = ["deploys", "audit"] as const;
const TABLES = Object.keys(KEYS) as Table[];

export type RecordCounts = Readonly<Record<Table, number>>;

export async function countRecords(db: Kysely<Tables>): Promise<RecordCounts> {
  const counts: Partial<Record<Table, number>> = {};
  for (const table of TABLES) {
    const { n } = await (db as Rows).selectFrom(table).select(sql<number>`count(*)`.as("n")).executeTakeFirstOrThrow();
    counts[table] = n;
  }
  return counts as RecordCounts;
}

/** Throws when the target does not have the same rows in the end. */
export async function copyRecords(from: Kysely<Tables>, to: Kysely<Tables>): Promise<RecordCounts> {
  return to.transaction().execute(async (trx) => {
    if (isPostgres(trx)) await WRITER_LOCK.execute(trx);
    const rows = trx as Rows;
    for (const table of [...TABLES].reverse()) await rows.deleteFrom(table).execute();
    for (const table of TABLES) {
      for await (const page of pages(from, table)) await rows.insertInto(table).values(page).execute();
    }
    if (isPostgres(trx)) await afterPostgres(trx);
    for (const table of TABLES) {
      const [source, target] = [await digestOf(from, table), await digestOf(trx, table)];
      if (source !== target) throw new Error(`the rows of ${table} are not the same after they were copied`);
    }
    return countRecords(trx);
  });
}

async function* pages<T extends Table>(db: Kysely<Tables>, table: T): AsyncGenerator<Selectable<Tables[T]>[]> {
  for (let at = 0; ; at += MOVE_ROWS_AT_ONCE) {
    let page = (db as Rows).selectFrom(table).selectAll().limit(MOVE_ROWS_AT_ONCE).offset(at);
    for (const column of KEYS[table]) page = page.orderBy(column);
    const rows = (await page.execute()) as Selectable<Tables[T]>[];
    if (rows.length > 0) yield rows;
    if (rows.length < MOVE_ROWS_AT_ONCE) return;
  }
}

/** The numbers go on behind those that came, and nobody follows the changes yet. */
async function afterPostgres(trx: Kysely<Tables>): Promise<void> {
  for (const table of NUMBERED) {
    await sql`select setval(pg_get_serial_sequence(${table}, 'id'), (select coalesce(max(id), 0) + 1 from ${sql.table(table)}), false)`.execute(
      trx,
    );
  }
  await sql`delete from changes`.execute(trx);
}

/** Of the rows, in the order of their key. */
async function digestOf(db: Kysely<Tables>, table: Table): Promise<string> {
  const hash = createHash("sha256");
  for await (const page of pages(db, table)) {
    for (const row of page) {
      const columns = Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1));
      // A text of PostgreSQL has no NUL: postgres.ts puts another character in its place.
      hash.update(JSON.stringify(columns).replaceAll("\\u0000", "\ufffd"));
    }
  }
  return hash.digest("hex");
}
