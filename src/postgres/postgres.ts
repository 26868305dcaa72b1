/**
 * The platform's way to its PostgreSQL: a pool of connections with a bound, and dedicated ones.
 *
 *   acquire ──▶ an idle connection, a new one, or the next that is released
 *                  │ the server is away: again and again, with a pause that doubles, for POSTGRES_WAIT_MAX_MS
 *                  │ it has no connection free, and this side has some: the next that is released
 *                  ▼
 *   release ──▶ idle; one that was lost, or whose transaction did not end, is closed
 *
 * No state is kept in a session: each statement outside a transaction may go to another server process (PgBouncer).
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Client, QueryResult } from "pg";
import type { SvcError } from "../domain/errors.ts";
import {
  POSTGRES_PROBE_ROWS,
  POSTGRES_RETRY_MAX_MS,
  POSTGRES_RETRY_MIN_MS,
  POSTGRES_STATEMENT_MAX_MS,
  POSTGRES_WAIT_MAX_MS,
} from "../domain/limits.ts";
import { connectPostgres, endInOrder, endNow, type PostgresAccess } from "./connect.ts";
import { databaseName } from "./database-url.ts";
import {
  isConnectionLost,
  isCrowded,
  isOfServer,
  isUnconfirmed,
  type Notice,
  PostgresRefusal,
  postgresProblem,
} from "./problems.ts";

export interface PostgresOptions {
  readonly access: PostgresAccess;
  /** Of the pool; dedicated connections come on top. */
  readonly connectionsMax: number;
  /** Told when the database goes away, and when it is back. */
  readonly told?: (away: SvcError | undefined) => void;
  /** Told each time that it was found to lack the end of what it had said to be stored. */
  readonly lostTail?: () => void;
  /** Told of each write that failed for want of room there. */
  readonly full?: (error: SvcError) => void;
  readonly waitMaxMs?: number;
  readonly statementMaxMs?: number;
}

/** A connection of the pool, the caller's alone until it is released. Every failure is an SvcError in words. */
export interface PooledConnection {
  // biome-ignore lint/suspicious/noExplicitAny: as pg has it: the caller says what rows it asks for.
  query<R extends object = any>(sql: string, parameters?: readonly unknown[]): Promise<QueryResult<R>>;
  release(): void;
}

interface Waiting {
  resolve(connection: PooledConnection): void;
  reject(error: unknown): void;
  readonly timer: NodeJS.Timeout;
}

export class Postgres {
  /** What it is called in words. */
  readonly name: string;
  readonly #options: PostgresOptions;
  readonly #idle: Client[] = [];
  readonly #lent = new Set<Client>();
  readonly #waiting: Waiting[] = [];
  readonly #closing = new AbortController();
  /** With those that are made now. */
  #open = 0;
  #away: SvcError | undefined;
  #awayAt = 0;
  #tailLostAt: number | undefined;

  constructor(options: PostgresOptions) {
    this.#options = options;
    this.name = databaseName(options.access.url);
  }

  /** Why it cannot be reached, as the last try found; undefined when it could. */
  get away(): SvcError | undefined {
    return this.#away;
  }

  /** When it was last found to lack the end of what it had said to be stored, by the monotonic clock; undefined: never. */
  get tailLostAt(): number | undefined {
    return this.#tailLostAt;
  }

  /** A standby took over that had not got the end of what was written. */
  lostTail(): void {
    this.#tailLostAt = performance.now();
    this.#options.lostTail?.();
  }

  /**
   * A connection for the caller alone, who ends it. Waits for a database that is away for `waitMaxMs` (of the options), or
   * until `signal` ends; rejects then, and at once when it refuses.
   */
  async connect({
    signal,
    waitMaxMs = this.#waitMaxMs,
    stepsBack = () => false,
  }: {
    signal?: AbortSignal;
    waitMaxMs?: number;
    /** Whether the caller leaves it to others when the server has no connection free: it is not away then. */
    stepsBack?: () => boolean;
  } = {}): Promise<Client> {
    const ends = signal === undefined ? this.#closing.signal : AbortSignal.any([signal, this.#closing.signal]);
    const until = performance.now() + waitMaxMs;
    for (let pauseMs = POSTGRES_RETRY_MIN_MS; ; pauseMs = Math.min(2 * pauseMs, POSTGRES_RETRY_MAX_MS)) {
      try {
        const client = await connectPostgres(this.#options.access);
        this.#noticed(undefined);
        return client;
      } catch (error) {
        if (isCrowded(error) && stepsBack()) throw error;
        const problem = this.problem(error);
        if (problem.code !== "DATABASE_AWAY" || ends.aborted || performance.now() + pauseMs > until) throw problem;
        await pause(pauseMs, undefined, { signal: ends }).catch(() => {
          throw problem;
        });
      }
    }
  }

  /** `error` in words; takes note when it means that the database is away. */
  problem(error: unknown): SvcError {
    const problem = postgresProblem(error, this.#options.access.url);
    if (problem.code === "DATABASE_AWAY") this.#noticed(problem);
    if (problem.code === "STORAGE_FULL") this.#options.full?.(problem);
    return problem;
  }

  async acquire(): Promise<PooledConnection> {
    if (this.#closing.signal.aborted) throw this.problem(new PostgresRefusal("closed"));
    const idle = this.#idle.pop();
    if (idle !== undefined) return this.#lend(idle);
    if (this.#open >= this.#options.connectionsMax) return this.#wait();
    this.#open += 1;
    // Of several that are being made, the last one finds out whether there is room for any.
    let isBack = false;
    const stepsBack = () => {
      isBack = this.#open > 1;
      if (isBack) this.#open -= 1;
      return isBack;
    };
    try {
      return this.#lend(this.#watched(await this.connect({ stepsBack })));
    } catch (error) {
      if (!isBack) {
        this.#left();
        throw error;
      }
      const free = this.#idle.pop();
      return free === undefined ? this.#wait() : this.#lend(free);
    }
  }

  /** One statement outside transactions. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  async query<R extends object = any>(sql: string, parameters?: readonly unknown[]): Promise<QueryResult<R>> {
    const connection = await this.acquire();
    try {
      return await connection.query<R>(sql, parameters);
    } finally {
      connection.release();
    }
  }

  /** Resolves when the database has room for a table of 1 MiB, of which nothing stays. */
  async tryRoom(): Promise<void> {
    const connection = await this.acquire();
    try {
      await connection.query("BEGIN");
      await connection.query(
        `CREATE UNLOGGED TABLE svc_room_probe AS SELECT generate_series(1, ${POSTGRES_PROBE_ROWS}) AS n`,
      );
      await connection.query("ROLLBACK");
    } finally {
      connection.release();
    }
  }

  /** Whoever waits is refused; connections that are lent out end when they are released. Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const one of this.#waiting.splice(0)) {
      clearTimeout(one.timer);
      one.reject(this.problem(new PostgresRefusal("closed")));
    }
    await Promise.all(this.#idle.splice(0).map((client) => this.#end(client)));
  }

  /** As close, without a wait for an answer: what is under way on connections of the pool ends, too. */
  abandon(): void {
    this.close().catch(() => {});
    for (const client of this.#lent) endNow(client);
  }

  get #waitMaxMs(): number {
    return this.#options.waitMaxMs ?? POSTGRES_WAIT_MAX_MS;
  }

  #wait(): Promise<PooledConnection> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(this.problem(new PostgresRefusal("silent", `${this.#waitMaxMs / 1000}`)));
      }, this.#waitMaxMs);
      const waiting: Waiting = { resolve, reject, timer };
      this.#waiting.push(waiting);
    });
  }

  /** A connection that ends while nobody uses it leaves the pool. */
  #watched(client: Client): Client {
    client.once("end", () => {
      const index = this.#idle.indexOf(client);
      if (index < 0) return;
      this.#idle.splice(index, 1);
      this.#left();
    });
    return client;
  }

  #lend(client: Client): PooledConnection {
    this.#lent.add(client);
    let lost = false;
    let inTransaction = false;
    let released = false;
    return {
      query: async (sql, parameters) => {
        // Those that begin and end are their own statements.
        if (/^\s*(begin|start transaction)\b/i.test(sql)) inTransaction = true;
        try {
          const result = await this.#run(client, sql, parameters);
          if (/^\s*(commit|rollback)\s*$/i.test(sql)) inTransaction = false;
          this.#answered();
          return result as QueryResult<never>;
        } catch (error) {
          lost ||= isConnectionLost(error);
          throw isOfServer(error) ? this.problem(error) : error;
        }
      },
      release: () => {
        if (released) return;
        released = true;
        this.#lent.delete(client);
        if (lost || inTransaction || this.#closing.signal.aborted) this.#drop(client);
        else this.#free(client);
      },
    };
  }

  async #run(client: Client, sql: string, parameters: readonly unknown[] = []): Promise<QueryResult> {
    const maxMs = this.#options.statementMaxMs ?? POSTGRES_STATEMENT_MAX_MS;
    let silent = false;
    let unconfirmed = false;
    const noticed = (notice: Notice) => {
      unconfirmed ||= isUnconfirmed(notice);
    };
    client.on("notice", noticed);
    const timer = setTimeout(() => {
      silent = true;
      endNow(client);
    }, maxMs);
    try {
      const result = await client.query(sql, parameters.map(storable));
      if (unconfirmed) throw new PostgresRefusal("unconfirmed");
      return result;
    } catch (error) {
      if (silent) throw new PostgresRefusal("silent", `${maxMs / 1000}`, { cause: error });
      throw error;
    } finally {
      clearTimeout(timer);
      client.off("notice", noticed);
    }
  }

  #free(client: Client): void {
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#idle.push(client);
      return;
    }
    clearTimeout(next.timer);
    next.resolve(this.#lend(client));
  }

  #drop(client: Client): void {
    endNow(client);
    this.#left();
  }

  /** There is one connection less: whoever waits may have another. */
  #left(): void {
    this.#open -= 1;
    const next = this.#waiting.shift();
    if (next === undefined) return;
    clearTimeout(next.timer);
    this.acquire().then(next.resolve, next.reject);
  }

  async #end(client: Client): Promise<void> {
    this.#open -= 1;
    await endInOrder(client);
  }

  /** It does while nobody was refused a connection: one that is there works on then too. */
  #answered(): void {
    if (this.#away !== undefined && performance.now() - this.#awayAt > 2 * POSTGRES_RETRY_MAX_MS)
      this.#noticed(undefined);
  }

  #noticed(away: SvcError | undefined): void {
    const before = this.#away;
    this.#away = away;
    this.#awayAt = performance.now();
    if ((before === undefined) !== (away === undefined)) this.#options.told?.(away);
  }
}

/** A text of PostgreSQL has no NUL; one stands there as what stands for any character that cannot be shown. */
function storable(value: unknown): unknown {
  return typeof value === "string" && value.includes("\0") ? value.replaceAll("\0", "\ufffd") : value;
}
