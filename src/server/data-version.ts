/**
 * Which version a data directory is of. A platform brings that of an earlier version to its own shape when it starts; one of
 * a later version has a shape that it does not know, and is refused before anything in it is changed.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { QUEUE_STEPS } from "../queue/sqlite/schema.ts";
import { STORE_STEPS } from "../store/migrations.ts";

const VERSION_FILE = "version";

/** The version that used it last; undefined before the first start, and of versions up to 0.1.0 that did not say. */
export function dataVersion(dataDir: string): string | undefined {
  try {
    return readFileSync(path.join(dataDir, VERSION_FILE), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

/** For the next start, of whatever version. */
export function noteVersion(dataDir: string): Promise<void> {
  return writeFileAtomic(path.join(dataDir, VERSION_FILE), `${VERSION}\n`);
}

/** How many steps of this version the tables lack. Throws DATA_DIRECTORY when they have some that it does not know. */
export function stepsToDo(connection: DatabaseSync, dataDir: string): number {
  const { user_version: queue } = connection.prepare("PRAGMA user_version").get() as { user_version: number };
  const store = storeSteps(connection);
  if (queue > QUEUE_STEPS || store.some((name) => !STORE_STEPS.includes(name))) throw tooNew(dataDir);
  return QUEUE_STEPS - queue + STORE_STEPS.length - store.length;
}

/** Closes a database of a newer version and throws. */
export function refuseNewer(database: SqliteDatabase, dataDir: string): void {
  try {
    stepsToDo(database.connection, dataDir);
  } catch (error) {
    database.close();
    throw error;
  }
}

function storeSteps(connection: DatabaseSync): string[] {
  const table = connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'kysely_migration'").get();
  if (table === undefined) return [];
  return connection
    .prepare("SELECT name FROM kysely_migration")
    .all()
    .map(({ name }) => String(name));
}

function tooNew(dataDir: string): SvcError {
  const version = dataVersion(dataDir);
  const by = version === undefined ? "a newer svc" : `a newer svc (${version})`;
  return new SvcError(
    "DATA_DIRECTORY",
    `The data directory was used by ${by} and cannot be read by this one (${VERSION}).`,
    {
      where: dataDir,
      help: "Install that version again, or restore a backup from before it: svc platform restore DIR.",
    },
  );
}
