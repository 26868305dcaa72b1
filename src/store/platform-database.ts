import { accessSync, chmodSync, constants, existsSync } from "node:fs";
import { join } from "node:path";
import { SvcError } from "../domain/errors.ts";
import { lackOf, storageFull } from "../domain/storage.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { type Durability, isDamagedError, isLockedError, openSqlite, type SqliteDatabase } from "../lib/sqlite.ts";

export const DATABASE_FILE = "platform.db";

/**
 * Opens `<dataDir>/platform.db`, which holds the store and the queue, and makes the directory when it is missing.
 * Throws DATA_DIRECTORY when it cannot be written or when another platform runs on it.
 */
export function openPlatformDatabase(dataDir: string, durability: Durability): SqliteDatabase {
  const path = join(dataDir, DATABASE_FILE);
  try {
    makeFolder(dataDir, 0o700);
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    const database = openSqlite(path, durability);
    // Made by SQLite as the umask lets it.
    for (const file of [path, `${path}-wal`]) if (existsSync(file)) chmodSync(file, 0o600);
    return database;
  } catch (error) {
    throw explain(error, dataDir);
  }
}

function explain(error: unknown, dataDir: string): SvcError {
  if (isLockedError(error)) {
    return new SvcError("DATA_DIRECTORY", `Another platform is running on the data directory ${dataDir}.`, {
      help: "Stop it with `svc platform stop`, or start this one with another SVC_DATA_DIR.",
      where: dataDir,
      cause: error,
    });
  }
  if (isDamagedError(error)) return damagedDatabase(error, dataDir);
  const lack = lackOf(error);
  if (lack !== undefined) return storageFull(lack, error);
  const reason = error instanceof Error ? error.message : String(error);
  return new SvcError("DATA_DIRECTORY", `The data directory ${dataDir} cannot be used: ${reason}.`, {
    help: "Make it a directory that this user can write to, or choose another one with SVC_DATA_DIR.",
    where: dataDir,
    cause: error,
  });
}

export function damagedDatabase(cause: unknown, dataDir: string): SvcError {
  return new SvcError("DATA_DIRECTORY", `The platform's database is damaged: ${(cause as Error).message}.`, {
    help: "Put a backup back with svc platform restore FOLDER, which moves what is there aside.",
    where: join(dataDir, DATABASE_FILE),
    cause,
  });
}
