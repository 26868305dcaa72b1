import { CamelCasePlugin, Kysely } from "kysely";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import { migrate } from "./migrations/migrate.ts";
import { nodeSqliteDialect } from "./node-sqlite-dialect.ts";
import { createSqlStore } from "./sql-store.ts";
import type { Store } from "./store.ts";
import type { Tables } from "./tables.ts";

const SQLITE_CONSTRAINT = 19;

/** The store on an open database, its tables migrated. close() leaves the database open: whoever opened it closes it. */
export async function openSqliteStore(database: SqliteDatabase): Promise<Store> {
  const db = new Kysely<Tables>({
    dialect: nodeSqliteDialect(database),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
  await migrate(db);
  return createSqlStore(db, isConstraintError);
}

/** The low byte of SQLite's extended code names the kind of failure. */
function isConstraintError(error: unknown): boolean {
  return error instanceof Error && ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_CONSTRAINT;
}
