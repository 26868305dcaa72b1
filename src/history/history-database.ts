/**
 * The one file of what was: series, records. Whoever keeps something there hands in its changes; they are written once a
 * second in one transaction, in the order they came, and never on the way of a job. A disk that is full or broken costs
 * history alone: what could not be written is left out, which is said once.
 */
import { chmodSync, existsSync, renameSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { HISTORY_PENDING_MAX, HISTORY_WRITE_MS } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import { isDamagedError, openSqlite, type SqliteDatabase } from "../lib/sqlite.ts";

/** A part of the next transaction. It may take turns of the event loop: nobody else writes meanwhile. */
export type HistoryChange = () => void | Promise<void>;

/** Read-only, input or output, corrupt, full, cannot open, no database: the file is at fault, not the change. */
const FILE_FAULTS = new Set([8, 10, 11, 13, 14, 26]);

export class HistoryDatabase {
  readonly connection: DatabaseSync;
  readonly #path: string;
  readonly #database: SqliteDatabase;
  readonly #log: Log;
  #pending: HistoryChange[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #failing = false;
  #damaged = false;
  readonly #undone: (() => void)[] = [];
  #closed = false;

  /** `path`: of its file; "" without one. */
  constructor(database: SqliteDatabase, log: Log, path: string) {
    this.#path = path;
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
    if (this.#damaged) putAside(this.#path);
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
      if (!this.#damaged && isDamagedError(error)) {
        this.#damaged = true;
        this.#log.error("the history's file is damaged: it is put aside when the platform ends, and a new one begins");
      }
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
 * Opens or makes the file, and what `open` makes of it. A damaged one is put aside as `<path>.damaged`; when none can be opened,
 * history is kept in memory until the platform ends.
 */
export function openHistory<T>(path: string, log: Log, open: (history: HistoryDatabase) => T): T {
  try {
    return openFile(path, log, open);
  } catch (error) {
    try {
      if (!isDamagedError(error)) throw error;
      putAside(path);
      const opened = openFile(path, log, open);
      log.error("the history's file was damaged and is put aside; a new one begins", { file: `${path}.damaged` });
      return opened;
    } catch (cause) {
      log.error("the history's file cannot be opened: history is kept in memory until the platform ends", { cause });
      return open(new HistoryDatabase(openSqlite(":memory:", "normal"), log, ""));
    }
  }
}

/** With its other files: they are a part of it. */
function putAside(path: string): void {
  for (const end of ["", "-wal", "-shm"]) if (existsSync(path + end)) renameSync(path + end, `${path}.damaged${end}`);
}

/** Private. */
function openFile<T>(path: string, log: Log, open: (history: HistoryDatabase) => T): T {
  const database = openSqlite(path, "normal");
  try {
    database.connection.prepare("SELECT count(*) FROM sqlite_master").get();
    for (const file of [path, `${path}-wal`]) if (existsSync(file)) chmodSync(file, 0o600);
    return open(new HistoryDatabase(database, log, path));
  } catch (error) {
    database.close();
    throw error;
  }
}
