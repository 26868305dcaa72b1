/**
 * One transaction for all the work of one turn of the event loop:
 *
 *   run(a) run(b) … ──setImmediate──▶ BEGIN  a b …  beforeCommit  COMMIT ──▶ promises settle, afterCommit
 *
 * A promise resolves only after the commit. Work that throws, also by breaking a constraint, is rejected alone, so it
 * must throw before or by its first write. Any other failure of the database (a full disk) rejects the whole batch.
 */
import type { StatementSync } from "node:sqlite";
import type { SqliteDatabase } from "./sqlite.ts";

const SQLITE_CONSTRAINT = 19;

interface GroupCommitHooks {
  /** Last work of the transaction. */
  beforeCommit(): void;
  /** After the promises of the batch were settled. */
  afterCommit(): void;
  /** Nothing of the batch was written: what is kept in memory must be read again. May return what the batch is rejected with. */
  rolledBack(error: unknown): unknown;
}

interface Pending {
  work: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  value: unknown;
  error: unknown;
  failed: boolean;
}

export class GroupCommit {
  readonly #database: SqliteDatabase;
  readonly #hooks: GroupCommitHooks;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  #pending: Pending[] = [];
  #scheduled = false;
  #closed: Error | undefined;
  /** Why a batch failed after which rolling back failed too: that comes before any other work. */
  #notRolledBack: { readonly error: unknown } | undefined;
  readonly #flush = () => this.#database.whenFree(() => this.flush());

  constructor(database: SqliteDatabase, hooks: GroupCommitHooks) {
    this.#database = database;
    this.#hooks = hooks;
    this.#begin = database.connection.prepare("BEGIN IMMEDIATE");
    this.#commit = database.connection.prepare("COMMIT");
  }

  /** Resolves what `work` returned once it is committed. */
  run<T>(work: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed !== undefined) return reject(this.#closed);
      this.#pending.push({
        work,
        resolve: resolve as (value: unknown) => void,
        reject,
        value: undefined,
        error: undefined,
        failed: false,
      });
      if (this.#scheduled) return;
      this.#scheduled = true;
      setImmediate(this.#flush);
    });
  }

  /** Commits what waits, now. */
  flush(): void {
    this.#scheduled = false;
    const batch = this.#pending;
    if (batch.length === 0) return;
    this.#pending = [];
    try {
      if (this.#notRolledBack !== undefined) this.#restore(this.#notRolledBack.error);
      this.#begin.run();
      for (const item of batch) this.#attempt(item);
      this.#hooks.beforeCommit();
      this.#commit.run();
    } catch (error) {
      this.#rollBack(batch, error);
      return;
    }
    for (const item of batch) {
      if (item.failed) item.reject(item.error);
      else item.resolve(item.value);
    }
    this.#hooks.afterCommit();
  }

  /** Commits what waits; later work is rejected with `reason`. */
  close(reason: Error): void {
    if (this.#closed !== undefined) return;
    this.#closed = reason;
    this.#flush();
  }

  #attempt(item: Pending): void {
    try {
      item.value = item.work();
    } catch (error) {
      if (isDatabaseFailure(error)) throw error;
      item.failed = true;
      item.error = error;
    }
  }

  #rollBack(batch: readonly Pending[], error: unknown): void {
    let reason = error;
    try {
      reason = this.#restore(error) ?? error;
    } catch {
      this.#notRolledBack = { error };
    }
    for (const item of batch) item.reject(item.failed ? item.error : reason);
  }

  #restore(error: unknown): unknown {
    if (this.#database.connection.isTransaction) this.#database.connection.exec("ROLLBACK");
    const reason = this.#hooks.rolledBack(error);
    this.#notRolledBack = undefined;
    return reason;
  }
}

/** Whether a statement failed for another reason than a broken constraint (the low byte of SQLite's extended code). */
function isDatabaseFailure(error: unknown): boolean {
  const code = (error as { errcode?: number } | undefined)?.errcode;
  return code !== undefined && code % 256 !== SQLITE_CONSTRAINT;
}
