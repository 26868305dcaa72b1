/**
 * The one file of what was: series, records. Whoever keeps something there hands in its changes; they are written once a
 * second in one transaction, in the order they came, and never on the way of a job. A disk that is full or broken costs
 * history alone: what could not be written is left out, which is said once.
 */
import { chmodSync, existsSync, renameSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { HISTORY_PENDING_MAX, HISTORY_WRITE_MS } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import { openSqlite, type SqliteDatabase } from "../lib/sqlite.ts";

/** A part of the next transaction. It may take turns of the event loop: nobody else writes meanwhile. */
export type HistoryChange = () => void | Promise<void>;

const SQLITE_CORRUPT = 11;
const SQLITE_NOT_A_DATABASE = 26;
/** Read-only, input or output, corrupt, full, cannot open, no database: the file is at fault, not the change. */
const FILE_FAULTS = new Set([8, 10, SQLITE_CORRUPT, 13, 14, SQLITE_NOT_A_DATABASE]);

export class HistoryDatabase {
  readonly connection: DatabaseSync;
  readonly #database: SqliteDatabase;
  readonly #log: Log;
  #pending: HistoryChange[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #failing = false;
  readonly #undone: (() => void)[] = [];
  #closed = false;

  constructor(database: SqliteDatabase, log: Log) {
    this.#database = database;
    this.connection = database.connection;
    this.#log = log;
  }

  /** Writes it soon. Left out when it cannot be written. */
  later(change: HistoryChange): void {
    if (this.#closed) return;
    this.#pending.push(change);
    if (this.#pending.length > HISTORY_PENDING_MAX) this.#pending.shift();
    this.#timer ??= setTimeout(() => this.#write(), HISTORY_WRITE_MS).unref();
  }

  /** Told when changes that were made are not written: what is remembered of them must be read again. */
  onUndone(listener: () => void): void {
    this.#undone.push(listener);
  }

  /** Resolves when all that was handed in is written or left out; never rejects. */
  async flush(): Promise<void> {
    this.#write();
    await this.#writing;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.flush();
    this.#database.close();
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const changes = this.#pending;
    this.#pending = [];
    if (changes.length > 0) this.#writing = this.#writing.then(() => this.#transaction(changes));
  }

  async #transaction(changes: readonly HistoryChange[]): Promise<void> {
    try {
      this.connection.exec("BEGIN IMMEDIATE");
      for (const change of changes) await this.#attempt(change);
      this.connection.exec("COMMIT");
      if (this.#failing) this.#log.info("the history is written again");
      this.#failing = false;
    } catch (error) {
      this.#undo();
      if (!this.#failing)
        this.#log.error("the history cannot be written: what happens now will be missing in it", { error });
      this.#failing = true;
    }
  }

  async #attempt(change: HistoryChange): Promise<void> {
    try {
      await change();
    } catch (error) {
      const code = (error as { errcode?: number }).errcode;
      if (code !== undefined && FILE_FAULTS.has(code % 256)) throw error;
      this.#log.error("a part of the history was left out", { error });
    }
  }

  #undo(): void {
    try {
      if (this.connection.isTransaction) this.connection.exec("ROLLBACK");
      for (const listener of this.#undone) listener();
    } catch {} // The next transaction fails too then, and is left out as this one.
  }
}

/**
 * Opens or makes the file. A damaged one is put aside as `<path>.damaged`; when none can be opened, history is kept in
 * memory until the platform ends.
 */
export function openHistory(path: string, log: Log): HistoryDatabase {
  try {
    return new HistoryDatabase(openPrivate(path), log);
  } catch (error) {
    try {
      if (!isDamage(error)) throw error;
      for (const end of ["", "-wal", "-shm"])
        if (existsSync(path + end)) renameSync(path + end, `${path}.damaged${end}`);
      const database = openPrivate(path);
      log.error("the history's file was damaged and is put aside; a new one begins", { file: `${path}.damaged` });
      return new HistoryDatabase(database, log);
    } catch (cause) {
      log.error("the history's file cannot be opened: history is kept in memory until the platform ends", { cause });
      return new HistoryDatabase(openSqlite(":memory:", "normal"), log);
    }
  }
}

function openPrivate(path: string): SqliteDatabase {
  const database = openSqlite(path, "normal");
  try {
    database.connection.prepare("SELECT count(*) FROM sqlite_master").get();
    for (const file of [path, `${path}-wal`]) if (existsSync(file)) chmodSync(file, 0o600);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function isDamage(error: unknown): boolean {
  const code = (error as { errcode?: number }).errcode ?? 0;
  return code % 256 === SQLITE_CORRUPT || code % 256 === SQLITE_NOT_A_DATABASE;
}
