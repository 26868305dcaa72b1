import { CamelCasePlugin, Kysely } from "kysely";
import type { SealedText } from "../lib/sealed-text.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import { migrate } from "./migrations.ts";
import { nodeSqliteDialect } from "./node-sqlite-dialect.ts";
import { EnvColumn, sealClearValues } from "./sealed-env.ts";
import { type ChangeListener, createSqlStore, tellAll } from "./sql-store.ts";
import type { Store } from "./store.ts";
import type { Tables } from "./tables.ts";

const SQLITE_CONSTRAINT = 19;

/**
 * The store on an open database, its tables migrated. close() leaves the database open: whoever opened it closes it.
 * `seal` keeps the values of variables; what stands in clear from before is sealed now, and its old bytes are overwritten.
 */
export async function openSqliteStore(database: SqliteDatabase, seal?: SealedText): Promise<Store> {
  const db = sqliteRecords(database);
  await migrate(db);
  const env = new EnvColumn(seal);
  if (seal !== undefined) {
    const { connection } = database;
    connection.exec("PRAGMA secure_delete = ON");
    const sealed = await db.transaction().execute((all) => sealClearValues(all, env));
    if (sealed) connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    connection.exec("PRAGMA secure_delete = OFF");
  }
  const listeners: ChangeListener[] = [];
  return createSqlStore(db, env, {
    isConstraintError,
    // The connection is the transaction's alone.
    lock: async () => {},
    onChange: (listener) => void listeners.push(listener),
    committed: (changes) => tellAll(listeners, changes),
  });
}

/** The records as their rows are. */
export function sqliteRecords(database: SqliteDatabase): Kysely<Tables> {
  return new Kysely({
    dialect: nodeSqliteDialect(database),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
}

/** The low byte of SQLite's extended code names the kind of failure. */
function isConstraintError(error: unknown): boolean {
  return error instanceof Error && ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_CONSTRAINT;
}
