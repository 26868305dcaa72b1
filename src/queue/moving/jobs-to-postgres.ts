/**
 * The rows of a queue from SQLite to PostgreSQL, the newest first. There a job's number begins with the time at which it was
 * submitted: each gets that of its row, or one just before the next younger's, so that the order stays what it was.
 */
import type { DatabaseSync } from "node:sqlite";
import { MOVE_BATCH_BYTES, MOVE_BATCH_JOBS, MOVE_BODIES_AT_ONCE } from "../../domain/limits.ts";
import { type BodyStore, dayOf } from "../bodies/body-store.ts";
import { type Body, COMPLETED, DELAYED, FAILED, IN_QUEUE, type JobRow, sizeOf, TIMED_OUT } from "../machine/job-row.ts";
import type { ColumnValue } from "../postgres/arrays.ts";
import type { Query } from "../postgres/connection.ts";
import { SEQ_EPOCH_MS, SEQS_PER_MS } from "../postgres/numbers.ts";
import { shardOf } from "../postgres/ownership.ts";
import type { JobRecord } from "../postgres/records.ts";
import { SHARDS } from "../postgres/schema.ts";
import { type Column, NEW_DONE, NEW_OPEN, type Row } from "../postgres/statement.ts";
import { eachAtOnce, inserted, textOf } from "./inserts.ts";
import { type MoveBook, type MovedJobs, type MoveTold, NONE_MOVED, plus, type Transaction } from "./moved-jobs.ts";

export interface ToPostgresState {
  /** Rows from this number on are there. */
  readonly below: number;
  /** That of the job that came last. */
  readonly tick: number;
  readonly lastSeq: number;
  /** Rows that are to come. */
  readonly left: number;
  readonly moved: MovedJobs;
}

export interface ToPostgresOptions {
  readonly source: DatabaseSync;
  readonly transaction: Transaction;
  readonly bodies: BodyStore;
  /** Undefined when it is missing or damaged. */
  readonly readBody: (reference: string) => Promise<Uint8Array | undefined>;
  readonly book: MoveBook<ToPostgresState>;
  readonly clock: () => number;
  readonly told: MoveTold;
  readonly signal: AbortSignal;
}

type SqliteJob = JobRow & {
  readonly ttl_ms: number;
  readonly idempotency_key: string | null;
  readonly input: Body;
  readonly output: Body | null;
  readonly error: Body | null;
};
type SqliteExpired = Omit<JobRow, "line"> & { readonly kept_until: number; readonly error: string };
type Item = { readonly job: SqliteJob } | { readonly expired: SqliteExpired };

interface Endpoint {
  readonly id: string;
  readonly number: number;
  readonly shard: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
}

export async function jobsToPostgres(options: ToPostgresOptions): Promise<MovedJobs> {
  const { source, transaction, book, told, signal } = options;
  const endpoints = endpointsOf(source);
  const [{ n }] = source
    .prepare("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM expired_jobs) AS n")
    .all() as [{ n: number }];
  const first = {
    below: Number.MAX_SAFE_INTEGER,
    tick: Number.MAX_SAFE_INTEGER,
    lastSeq: 0,
    left: n,
    moved: NONE_MOVED,
  };
  let state: ToPostgresState = book.before ?? first;
  while (state.left > 0) {
    signal.throwIfAborted();
    const batch = new Batch(options, endpoints, state);
    for (const item of below(source, state.below)) {
      batch.add(item);
      if (batch.isFull) break;
    }
    await batch.putBodies();
    state = batch.end;
    await transaction(async (query) => {
      await batch.write(query);
      await book.write(query, state);
    });
    told(state.moved);
  }
  await transaction((query) => writeRest(query, source, endpoints, state.lastSeq));
  return state.moved;
}

/** The rows of both tables, the highest number first. */
function* below(source: DatabaseSync, end: number): Generator<Item> {
  const jobs = source.prepare("SELECT * FROM jobs NOT INDEXED WHERE seq < ? ORDER BY seq DESC").iterate(end);
  const expired = source
    .prepare("SELECT * FROM expired_jobs INDEXED BY expired_jobs_seq WHERE seq < ? ORDER BY seq DESC")
    .iterate(end);
  try {
    // At its end an iterator of SQLite gives null.
    let job = jobs.next().value as unknown as SqliteJob | null;
    let gone = expired.next().value as unknown as SqliteExpired | null;
    while (job !== null || gone !== null) {
      if (job !== null && (gone === null || job.seq > gone.seq)) {
        yield { job };
        job = jobs.next().value as unknown as SqliteJob | null;
      } else {
        yield { expired: gone! };
        gone = expired.next().value as unknown as SqliteExpired | null;
      }
    }
  } finally {
    jobs.return?.();
    expired.return?.();
  }
}

class Batch {
  readonly #options: ToPostgresOptions;
  readonly #endpoints: ReadonlyMap<number, Endpoint>;
  readonly #open: JobRecord[] = [];
  readonly #done: JobRecord[] = [];
  readonly #expired: Row[] = [];
  readonly #keys: Row[] = [];
  readonly #chunks: Row[] = [];
  readonly #hooks: Row[] = [];
  /** Where a body goes → where it is. */
  readonly #bodies = new Map<string, string>();
  /** What is there when the batch is. */
  end: ToPostgresState;
  #items = 0;
  #bytes = 0;

  constructor(options: ToPostgresOptions, endpoints: ReadonlyMap<number, Endpoint>, before: ToPostgresState) {
    this.#options = options;
    this.#endpoints = endpoints;
    this.end = before;
  }

  get isFull(): boolean {
    return this.#items >= MOVE_BATCH_JOBS || this.#bytes >= MOVE_BATCH_BYTES;
  }

  add(item: Item): void {
    this.#items += 1;
    if ("job" in item) this.#addJob(item.job);
    else this.#addExpired(item.expired);
  }

  #addExpired(row: SqliteExpired): void {
    const { number, shard } = this.#endpoints.get(row.endpoint)!;
    const seq = this.#numbered(row, shard);
    const { id, state, retries, attempts, worker_id, created_at, started_at, finished_at, kept_until, error } = row;
    const times = [created_at, started_at, finished_at, kept_until];
    this.#expired.push([seq, id, number, state, retries, attempts, worker_id, ...times, textOf(error)]);
    this.end = { ...this.end, moved: plus(this.end.moved, { expired: 1 }) };
  }

  #addJob({ idempotency_key, ...row }: SqliteJob): void {
    const { source } = this.#options;
    const { number, shard } = this.#endpoints.get(row.endpoint)!;
    const seq = this.#numbered(row, shard);
    const isDone = row.state >= COMPLETED;
    const place = (body: Body | null, part: string) => this.#placed(body, row, `${part}-${seq}`);
    const record: JobRecord = {
      ...row,
      ...{ seq, endpoint: number, key: textOf(idempotency_key ?? ""), stored: "new", storedFence: 0, isGone: false },
      ...{ method: textOf(row.method), webhook: textOf(row.webhook) },
      input: place(row.input, "in")!,
      output: place(row.output, "out"),
      error: place(row.error, "error"),
    };
    (isDone ? this.#done : this.#open).push(record);
    if (record.key !== "") this.#keys.push([number, record.key, row.id]);
    const chunks = source.prepare("SELECT seq, bytes, body FROM chunks WHERE job = ? ORDER BY seq").all(row.seq);
    for (const chunk of chunks as unknown as { seq: number; bytes: number; body: Body }[]) {
      this.#items += 1;
      const body = place(chunk.body, `${chunk.seq}`)!;
      this.#chunks.push([seq, chunk.seq, chunk.bytes, ...halves(body)]);
    }
    if (row.webhook !== "") {
      const hooks = source.prepare("SELECT id, host, failures, due_at FROM webhooks WHERE job = ?").all(row.seq);
      for (const { id, host, failures, due_at } of hooks as Record<string, never>[]) {
        this.#hooks.push([id!, seq, row.id, record.webhook, host!, failures!, due_at!]);
      }
    }
    this.end = { ...this.end, moved: plus(this.end.moved, isDone ? { done: 1 } : { open: 1 }) };
  }

  /** Its number, by the time of its submission; each is below that of the one before, and leaves room for those that are left. */
  #numbered({ seq: below, created_at }: { readonly seq: number; readonly created_at: number }, shard: number): number {
    const { tick: before, left, lastSeq } = this.end;
    const at = Math.floor((Math.min(created_at, this.#options.clock()) - SEQ_EPOCH_MS) * SEQS_PER_MS);
    const tick = Math.max(Math.min(at, before - 1), left);
    const seq = tick * SHARDS + shard;
    this.end = { ...this.end, below, tick, left: left - 1, lastSeq: Math.max(lastSeq, seq) };
    return seq;
  }

  /** What the new row has for a body. */
  #placed(body: Body | null, { id, created_at }: SqliteJobName, part: string): Body | null {
    if (typeof body !== "string") {
      this.#bytes += body?.byteLength ?? 0;
      return body;
    }
    const name = `${dayOf(created_at)}/${id.replaceAll(/[^\w-]/g, "_")}/${part}.${sizeOf(body)}`;
    this.#bodies.set(name, body);
    return name;
  }

  /** Before the rows that name them. Put again after a kill, they take the same names. */
  async putBodies(): Promise<void> {
    const { bodies, readBody, signal } = this.#options;
    await eachAtOnce([...this.#bodies], MOVE_BODIES_AT_ONCE, async ([name, reference]) => {
      signal.throwIfAborted();
      const bytes = await readBody(reference);
      if (bytes !== undefined) await bodies.put(name, bytes);
      const counted = bytes === undefined ? { lostBodies: 1 } : { bodies: 1, bodyBytes: bytes.byteLength };
      this.end = { ...this.end, moved: plus(this.end.moved, counted) };
    });
  }

  async write(query: Query): Promise<void> {
    await insertColumns(query, "open_jobs", OPEN, this.#open);
    await insertColumns(query, "done_jobs", NEW_DONE, this.#done);
    await inserted(query, "expired_jobs", EXPIRED, this.#expired);
    await inserted(query, "job_keys", { endpoint: "int4", key: "text", id: "text" }, this.#keys);
    await inserted(query, "job_chunks", CHUNKS, this.#chunks);
    await inserted(query, "job_webhooks", HOOKS, this.#hooks);
  }
}

/** A job that runs may have said how far it is. */
const OPEN = [...NEW_OPEN, ...NEW_DONE.filter(({ name }) => name === "output" || name === "output_ref")];

type SqliteJobName = Pick<SqliteJob, "id" | "created_at">;

const TIMES = { created_at: "int8", started_at: "int8", finished_at: "int8", kept_until: "int8" } as const;
const EXPIRED = {
  ...({ seq: "int8", id: "text", endpoint: "int4", state: "int2", retries: "int4", attempts: "int4" } as const),
  ...({ worker_id: "text", ...TIMES, line: "text" } as const),
};
const CHUNKS = { job: "int8", n: "int8", bytes: "int8", body: "bytea", ref: "text" } as const;
const HOOKS = {
  ...({
    id: "int8",
    job: "int8",
    job_id: "text",
    url: "text",
    host: "text",
    failures: "int4",
    due_at: "int8",
  } as const),
};

async function insertColumns(query: Query, table: string, columns: readonly Column<JobRecord>[], jobs: JobRecord[]) {
  const types = Object.fromEntries(columns.map(({ name, type }) => [name, type]));
  const rows = jobs.map((job) => columns.map(({ of }) => of(job)));
  await inserted(query, table, types, rows);
}

function halves(body: Body): [ColumnValue, ColumnValue] {
  return typeof body === "string" ? [null, body] : [body, null];
}

/** By their numbers there. */
function endpointsOf(source: DatabaseSync): ReadonlyMap<number, Endpoint> {
  const rows = source.prepare("SELECT * FROM queue_endpoints ORDER BY number").all() as unknown as Endpoint[];
  return new Map(
    rows.map((row, index) => {
      const shard = shardOf(row.id);
      return [row.number, { ...row, shard, number: (index + 1) * SHARDS + shard }];
    }),
  );
}

/** Counts, schedules, and the highest number that was given. Carried out again it is the same. */
async function writeRest(
  query: Query,
  source: DatabaseSync,
  endpoints: ReadonlyMap<number, Endpoint>,
  lastSeq: number,
): Promise<void> {
  const counts = source
    .prepare("SELECT endpoint, state, sum(low_priority) AS low, count(*) AS n FROM jobs GROUP BY endpoint, state")
    .all() as unknown as { endpoint: number; state: number; low: number; n: number }[];
  const rows = [...endpoints].map(([was, { number, id, shard, completed, failed, retried }]) => {
    const of = (...states: number[]) => counts.filter((one) => one.endpoint === was && states.includes(one.state));
    const sum = (all: typeof counts, name: "n" | "low") => all.reduce((total, one) => total + one[name], 0);
    const [queued, delayed] = [of(IN_QUEUE), of(DELAYED)];
    const waiting = [sum(queued, "n"), sum(queued, "low"), sum(delayed, "n")];
    const finals = [completed + sum(of(COMPLETED), "n"), failed + sum(of(FAILED, TIMED_OUT), "n"), retried];
    return [number, id, shard, ...waiting, ...finals];
  });
  await query("DELETE FROM queue_endpoints");
  await inserted(query, "queue_endpoints", ENDPOINTS, rows);
  await query("DELETE FROM job_schedules");
  const schedules = source.prepare("SELECT endpoint, spec, until, paused, tick, job FROM schedules").all();
  await inserted(
    query,
    "job_schedules",
    SCHEDULES,
    schedules.map((row) => Object.values(row) as ColumnValue[]),
  );
  await query("DELETE FROM queue_journal");
  await query("INSERT INTO queue_journal VALUES (0, 0, '[]', $1)", [lastSeq]);
}

const ENDPOINTS = {
  ...({ number: "int4", id: "text", shard: "int4", in_queue: "int8", in_queue_low: "int8", delayed: "int8" } as const),
  ...({ completed: "int8", failed: "int8", retried: "int8" } as const),
};
const SCHEDULES = {
  ...({ endpoint: "text", spec: "text", until: "int8", paused: "int2", tick: "int8", job: "text" } as const),
};
