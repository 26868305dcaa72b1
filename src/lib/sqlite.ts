/**
 * One SQLite file, one connection, one process. WAL with an exclusive lock: the lock keeps a second process out
 * (the kernel drops it when the process dies) and spares every transaction its locking calls.
 * Those who need the connection over several turns of the event loop take it with lock(); short synchronous work
 * goes through whenFree() and never lands in somebody else's transaction.
 */
import { DatabaseSync } from "node:sqlite";

/** normal: a commit survives the death of the process. full: also a power loss (an fsync for each commit). */
export type Durability = "normal" | "full";

const BUSY_TIMEOUT_MS = 1000;
/** Measured: a larger cache makes commits slower once it is full (docs/decisions/0001); the kernel caches the rest. */
const CACHE_KIB = 16 * 1024;
/** Pages (8 MB) of the log before it is folded into the file: fewer fsyncs against longer stalls (docs/decisions/0001). */
const CHECKPOINT_PAGES = 2000;
const LOG_MAX_BYTES = 64 * 1024 * 1024;
const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_NOT_A_DATABASE = 26;

export class SqliteDatabase {
  readonly connection: DatabaseSync;
  readonly durability: Durability;
  /** Told of a statement outside the queue that failed. */
  onFailure: (error: unknown) => void = () => {};
  #held = false;
  readonly #waiting: (() => void)[] = [];

  constructor(connection: DatabaseSync, durability: Durability) {
    this.connection = connection;
    this.durability = durability;
  }

  /** Resolves when the connection is the caller's alone; first come, first served. Pair it with unlock(). */
  lock(): Promise<void> {
    if (!this.#held) {
      this.#held = true;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  unlock(): void {
    this.#held = false;
    while (!this.#held) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#held = true;
      next();
    }
  }

  /** Runs `work` at once when nobody holds the connection, else as soon as it is free. `work` must be synchronous. */
  whenFree(work: () => void): void {
    if (!this.#held) {
      work();
      return;
    }
    this.#waiting.push(() => {
      try {
        work();
      } finally {
        this.#held = false;
      }
    });
  }

  /** Idempotent. */
  close(): void {
    if (this.connection.isOpen) this.connection.close();
  }
}

/** Opens or creates the file. Throws what node:sqlite throws; `isLockedError` tells the file held by another process. */
export function openSqlite(path: string, durability: Durability): SqliteDatabase {
  const connection = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true });
  try {
    connection.exec(`
      PRAGMA locking_mode = EXCLUSIVE;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = ${durability === "full" ? "FULL" : "NORMAL"};
      PRAGMA cache_size = -${CACHE_KIB};
      PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES};
      PRAGMA journal_size_limit = ${LOG_MAX_BYTES};
      PRAGMA temp_store = MEMORY;
      BEGIN EXCLUSIVE; COMMIT;
    `);
    return new SqliteDatabase(connection, durability);
  } catch (error) {
    connection.close();
    throw error;
  }
}

export function isLockedError(error: unknown): boolean {
  return codeOf(error) === SQLITE_BUSY;
}

/** What the file holds is no database, or not all of it is. */
export function isDamagedError(error: unknown): boolean {
  const code = codeOf(error) % 256;
  return code === SQLITE_CORRUPT || code === SQLITE_NOT_A_DATABASE;
}

function codeOf(error: unknown): number {
  return (error instanceof Error && (error as { errcode?: number }).errcode) || 0;
}
