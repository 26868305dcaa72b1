/** Brings a data directory to the shape of this version, which a platform also does when it starts; tables in PostgreSQL it does alone. */
import { existsSync } from "node:fs";
import path from "node:path";
import { migrateQueue } from "../queue/sqlite/schema.ts";
import { DATABASE_FILE, openPlatformDatabase } from "../store/platform-database.ts";
import { openSqliteStore } from "../store/sqlite-store.ts";
import { noteVersion, stepsToDo } from "./data-version.ts";
import { databaseOf } from "./state.ts";

/**
 * How many steps a data directory lacks that no platform uses; undefined when none was ever started there. Throws DATA_DIRECTORY
 * for one of a newer version.
 */
export function lackingSteps(dataDir: string): number | undefined {
  if (!existsSync(path.join(dataDir, DATABASE_FILE))) return undefined;
  if (databaseOf(dataDir) !== undefined) return 0;
  const database = openPlatformDatabase(dataDir, "normal");
  try {
    return stepsToDo(database.connection, dataDir);
  } finally {
    database.close();
  }
}

/** Takes the steps. Those of one table are taken whole or not at all. */
export async function takeSteps(dataDir: string): Promise<void> {
  if (databaseOf(dataDir) !== undefined) return noteVersion(dataDir);
  const database = openPlatformDatabase(dataDir, "normal");
  try {
    stepsToDo(database.connection, dataDir);
    const store = await openSqliteStore(database);
    migrateQueue(database.connection);
    await store.close();
  } finally {
    database.close();
  }
  await noteVersion(dataDir);
}
