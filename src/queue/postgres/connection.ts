/**
 * The queue's way to PostgreSQL. A line is one connection that is made again when it was lost; who uses it decides whether what
 * was under way is sent again. Nothing depends on the state of a session, so a pooler in transaction mode may stand between.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "pg";
import { SvcError } from "../../domain/errors.ts";
import {
  POSTGRES_QUEUE_CONNECTIONS,
  POSTGRES_RETRY_MAX_MS,
  POSTGRES_RETRY_MIN_MS,
  POSTGRES_WAIT_MAX_MS,
  QUEUE_SILENCE_MAX_MS,
} from "../../domain/limits.ts";
import { endInOrder, endNow } from "../../postgres/connect.ts";
import type { Postgres } from "../../postgres/postgres.ts";
import { isConnectionLost, isUnconfirmed, PostgresRefusal } from "../../postgres/problems.ts";

export type Query = <R>(text: string, values?: readonly unknown[], name?: string) => Promise<R[]>;

export interface Db {
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
}

/** Told when the database cannot be reached, and when it can again. */
export interface Outage {
  /** By the monotonic clock; undefined while all is well. */
  readonly since: number | undefined;
  readonly error: unknown;
}

const DEADLOCK = "40P01";
const SERIALIZATION = "40001";
const UNIQUE_VIOLATION = "23505";
/** A named statement is not known: something between passes the statements of one session to several. */
const NO_STATEMENT = new Set(["26000", "42P05"]);

export class Connections implements Db {
  readonly #postgres: Postgres;
  readonly #waitMaxMs: number;
  readonly #writer: Line;
  readonly #idle: Line[];
  /** Of who has which shard. It connects when it is used. */
  readonly #apart: Line;
  readonly #waiting: ((line: Line) => void)[] = [];
  readonly #stop = new AbortController();
  #outage: { since: number; error: unknown } | undefined;
  #named = true;
  #isOpen = false;
  readonly #listeners: ((waitMs: number) => void)[] = [];

  /** `waitMaxMs`: how long callers wait for a database that is away. */
  constructor(postgres: Postgres, waitMaxMs = POSTGRES_WAIT_MAX_MS) {
    this.#postgres = postgres;
    this.#waitMaxMs = waitMaxMs;
    this.#writer = new Line(postgres);
    this.#apart = new Line(postgres);
    this.#idle = Array.from({ length: POSTGRES_QUEUE_CONNECTIONS - 1 }, () => new Line(postgres));
  }

  get outage(): Outage | undefined {
    return this.#outage;
  }

  /** Whether the queue, or somebody else on this database, finds it away. */
  get isAway(): boolean {
    return this.#outage !== undefined || this.#postgres.away !== undefined;
  }

  /** What a caller hears who waited long enough; undefined as long as waiting makes sense. */
  get refusal(): SvcError | undefined {
    const outage = this.#outage;
    if (outage === undefined || performance.now() - outage.since < this.#waitMaxMs) return undefined;
    return this.#postgres.problem(reasonOf(outage.error));
  }

  /** Called when the database went away, with how long callers wait for it. */
  onOutage(listener: (waitMs: number) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Sends one statement of the writer until the server answered it; a connection that is lost meanwhile leaves open whether
   * it was carried out, and it is sent again. Throws what the server says of the statement itself.
   */
  async write<R>(text: string, values: readonly unknown[], name: string): Promise<R[]> {
    return this.#repeat(this.#writer, (client) => ask<R>(client, text, values, this.#named ? name : undefined));
  }

  /** On the writer's connection, whose statements run one after the other. Carried out again when the connection is lost. */
  async onWriter<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.#repeat(this.#writer, (client) => work(queryOf(client)));
  }

  /** As onWriter, whatever the reason why it failed: without it the queue cannot go on. */
  insist<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.#repeat(this.#writer, (client) => work(queryOf(client)), Number.POSITIVE_INFINITY, true);
  }

  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.onWriter((query) => inTransaction(query, work));
  }

  /**
   * On a connection beside that of the batches. Tried once: when the connection is lost meanwhile, it is not known whether it was carried
   * out.
   */
  apart<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.#apart.use((client) => work(queryOf(client)));
  }

  /** Reads, on a connection of its own. Waits a bounded time for a database that is away. */
  async read<R>(text: string, values: readonly unknown[] = [], forMs = this.#waitMaxMs): Promise<R[]> {
    return this.#reading((line) => this.#repeat(line, (client) => ask<R>(client, text, values), forMs));
  }

  async #reading<T>(work: (line: Line) => Promise<T>): Promise<T> {
    const line = this.#idle.pop() ?? (await new Promise<Line>((resolve) => this.#waiting.push(resolve)));
    try {
      return await work(line);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(line);
      else next(line);
    }
  }

  /** Several reads that see the same, as often as it takes. */
  readSame<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.#reading((line) =>
      this.#repeat(line, (client) => inSnapshot(queryOf(client), work), Number.POSITIVE_INFINITY, true),
    );
  }

  /** What is under way ends; nothing is sent again. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all([this.#writer, this.#apart, ...this.#idle].map((line) => line.close()));
  }

  async #repeat<T>(
    line: Line,
    work: (client: Client) => Promise<T>,
    forMs = Number.POSITIVE_INFINITY,
    mustBeDone = false,
  ): Promise<T> {
    const began = performance.now();
    for (let waitMs = POSTGRES_RETRY_MIN_MS; ; waitMs = Math.min(2 * waitMs, POSTGRES_RETRY_MAX_MS)) {
      try {
        const value = await line.use(work);
        this.#outage = undefined;
        this.#isOpen = true;
        return value;
      } catch (error) {
        if (!this.#mayRepeat(error, mustBeDone)) throw this.#postgres.problem(reasonOf(error));
        if (this.#stop.signal.aborted) throw closed(error);
        if (performance.now() - began > forMs) throw this.#postgres.problem(reasonOf(error));
      }
      await delay(waitMs, undefined, { signal: this.#stop.signal }).catch((error) => {
        throw closed(error);
      });
    }
  }

  #mayRepeat(error: unknown, mustBeDone: boolean): boolean {
    const { code } = error as { code?: string };
    if (code === DEADLOCK || code === SERIALIZATION) return true;
    if (this.#named && code !== undefined && NO_STATEMENT.has(code)) {
      this.#named = false;
      return true;
    }
    // Whoever was let in once is again, when the server is itself again.
    const isAway =
      error instanceof NotConnected ? this.#isOpen || isConnectionLost(error.cause) : isConnectionLost(error);
    if (!isAway && !mustBeDone) return false;
    if (this.#outage === undefined) {
      this.#outage = { since: performance.now(), error };
      for (const listener of this.#listeners) listener(this.#waitMaxMs);
    } else this.#outage.error = error;
    return true;
  }
}

class NotConnected extends Error {}

class Line {
  readonly #postgres: Postgres;
  #client: Client | undefined;
  /** What the last statement said to be done is perhaps not where it has to be. */
  #unconfirmed = false;
  #closed = false;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  async use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = this.#client ?? (await this.#connect());
    this.#unconfirmed = false;
    // A connection whose other end is gone without a word would be waited for forever.
    const silence = setTimeout(() => endNow(client), QUEUE_SILENCE_MAX_MS);
    try {
      const value = await work(client);
      if (this.#unconfirmed) throw new PostgresRefusal("unconfirmed");
      return value;
    } catch (error) {
      if (isConnectionLost(error)) this.#drop(client);
      throw error;
    } finally {
      clearTimeout(silence);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const client = this.#client;
    this.#client = undefined;
    if (client !== undefined) await endInOrder(client);
  }

  async #connect(): Promise<Client> {
    const client = await this.#postgres.connect({ waitMaxMs: 0 }).catch((cause) => {
      throw new NotConnected("not connected", { cause });
    });
    client.on("error", () => this.#drop(client));
    client.on("notice", (notice) => {
      this.#unconfirmed ||= isUnconfirmed(notice);
    });
    if (this.#closed) {
      await endInOrder(client);
      throw closed();
    }
    this.#client = client;
    return client;
  }

  #drop(client: Client): void {
    if (this.#client === client) this.#client = undefined;
    endNow(client);
  }
}

/** Statements that see the same, whatever others write meanwhile. */
export function inSnapshot<T>(query: Query, work: (query: Query) => Promise<T>): Promise<T> {
  return inTransaction(query, work, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
}

export async function inTransaction<T>(query: Query, work: (query: Query) => Promise<T>, begin = "BEGIN"): Promise<T> {
  await query(begin);
  try {
    const value = await work(query);
    await query("COMMIT");
    return value;
  } catch (error) {
    if (!isConnectionLost(error)) await query("ROLLBACK");
    throw error;
  }
}

/** A row that is there already has the same key. */
export function isCollision(error: unknown): boolean {
  return (error as { cause?: { code?: string } }).cause?.code === UNIQUE_VIOLATION;
}

function reasonOf(error: unknown): unknown {
  return error instanceof NotConnected ? error.cause : error;
}

function queryOf(client: Client): Query {
  return (text, values, name) => ask(client, text, values, name);
}

async function ask<R>(client: Client, text: string, values?: readonly unknown[], name?: string): Promise<R[]> {
  const { rows } = await client.query({ text, values: values as unknown[], ...(name !== undefined && { name }) });
  return rows as R[];
}

function closed(cause?: unknown): SvcError {
  return new SvcError("SHUTTING_DOWN", "The queue is closed.", { cause });
}
