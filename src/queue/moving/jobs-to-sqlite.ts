/**
 * The rows of a queue from PostgreSQL to SQLite, table by table. Numbers stay as they are. Bodies that lie outside the rows become
 * files.
 */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { MOVE_BODIES_AT_ONCE, MOVE_ROWS_AT_ONCE } from "../../domain/limits.ts";
import type { BodyStore } from "../bodies/body-store.ts";
import { COMPLETED, FAILED, sizeOf, TIMED_OUT } from "../machine/job-row.ts";
import type { Query } from "../postgres/connection.ts";
import { loadState } from "../postgres/load.ts";
import { type BodyFiles, referenceTo, referenceToNothing } from "../sqlite/body-files.ts";
import { eachAtOnce } from "./inserts.ts";
import { type MovedJobs, type MoveTold, NONE_MOVED, plus } from "./moved-jobs.ts";

export interface ToSqliteState {
  /** Of TABLES; as many as there are: all. */
  readonly table: number;
  /** The key of the last row of it. */
  readonly after: readonly number[];
  readonly moved: MovedJobs;
}

export interface ToSqliteOptions {
  readonly query: Query;
  readonly target: DatabaseSync;
  readonly bodies: BodyStore;
  readonly files: BodyFiles;
  readonly before: ToSqliteState | undefined;
  /** Part of the transaction of the batch. */
  readonly keep: (state: ToSqliteState) => void;
  readonly told: MoveTold;
  readonly signal: AbortSignal;
}

type Value = SQLInputValue;
type ReadRow = Record<string, Value>;

interface MovedTable {
  readonly key: readonly string[];
  readonly select: string;
  readonly into: string;
  /** There; each is a column here, or a body of two. */
  readonly columns: readonly string[];
  readonly counts?: keyof MovedJobs;
}

const JOB = [
  ...["seq", "id", "endpoint", "state", "low_priority", "fence", "retries", "attempts", "worker_id", "created_at"],
  ...["started_at", "expires_at", "due_at", "ttl_ms", "retention_ms", "execution_timeout_ms", "method", "webhook"],
];
const held = (table: string, more: string) => `SELECT j.*, ${more},
  (SELECT k.key FROM job_keys k WHERE k.endpoint = j.endpoint AND k.key = j.key AND k.id = j.id AND j.key <> '') AS idempotency_key
  FROM ${table} j`;
const GONE = [
  ...["seq", "id", "endpoint", "state", "retries", "attempts", "worker_id", "created_at", "started_at", "finished_at"],
  ...["kept_until", "error"],
];
/** Expired ones in the order in which they go. */
const TABLES: readonly MovedTable[] = [
  {
    key: ["seq"],
    select: held("open_jobs", "NULL::int8 AS finished_at, NULL::bytea AS error, NULL::text AS error_ref"),
    into: "jobs",
    columns: [...JOB, "finished_at", "idempotency_key", "input", "output", "error"],
    counts: "open",
  },
  {
    key: ["seq"],
    select: held("done_jobs", "1"),
    into: "jobs",
    columns: [...JOB, "finished_at", "idempotency_key", "input", "output", "error"],
    counts: "done",
  },
  {
    key: ["seq"],
    select: "SELECT n AS seq, job, bytes, body, ref AS body_ref FROM job_chunks",
    into: "chunks",
    columns: ["seq", "job", "bytes", "body"],
  },
  {
    key: ["id"],
    select: "SELECT id, job, host, failures, due_at FROM job_webhooks",
    into: "webhooks",
    columns: ["id", "job", "host", "failures", "due_at"],
  },
  {
    key: ["kept_until", "seq"],
    select: "SELECT *, line AS error FROM expired_jobs",
    into: "expired_jobs",
    columns: GONE,
    counts: "expired",
  },
];

export async function jobsToSqlite(options: ToSqliteOptions): Promise<MovedJobs> {
  const { target, told, signal } = options;
  let state: ToSqliteState = options.before ?? { table: 0, after: [], moved: NONE_MOVED };
  while (state.table < TABLES.length) {
    signal.throwIfAborted();
    const table = TABLES[state.table]!;
    const rows = await read(options, table, state.after);
    const { placed, moved } = await placeBodies(options, table, rows);
    const last = rows.length < MOVE_ROWS_AT_ONCE;
    const counted = plus(plus(state.moved, moved), table.counts === undefined ? {} : { [table.counts]: rows.length });
    const after = last ? [] : table.key.map((name) => rows.at(-1)![name] as number);
    state = { table: state.table + (last ? 1 : 0), after, moved: counted };
    inTransaction(target, () => {
      const marks = table.columns.map(() => "?").join(", ");
      const insert = target.prepare(`INSERT INTO ${table.into} (${table.columns.join(", ")}) VALUES (${marks})`);
      for (const row of placed) insert.run(...table.columns.map((name) => row[name] ?? null));
      options.keep(state);
    });
    told(state.moved);
  }
  await writeRest(options);
  return state.moved;
}

function read({ query }: ToSqliteOptions, { select, key }: MovedTable, after: readonly number[]): Promise<ReadRow[]> {
  const names = key.join(", ");
  const marks = after.map((_, index) => `$${index + 1}::int8`).join(", ");
  const where = after.length === 0 ? "" : `WHERE (${names}) > (${marks})`;
  return query<ReadRow>(`SELECT * FROM (${select}) t ${where} ORDER BY ${names} LIMIT ${MOVE_ROWS_AT_ONCE}`, after);
}

/** The rows with what stands for their bodies here. */
async function placeBodies(
  { bodies, files, signal }: ToSqliteOptions,
  { columns }: MovedTable,
  rows: readonly ReadRow[],
) {
  const placed = rows.map((row) => ({ ...row }));
  let moved = NONE_MOVED;
  const referred = placed.flatMap((row) =>
    columns.filter((name) => typeof row[`${name}_ref`] === "string").map((name) => [row, name] as const),
  );
  await eachAtOnce(referred, MOVE_BODIES_AT_ONCE, async ([row, name]) => {
    signal.throwIfAborted();
    const given = row[`${name}_ref`] as string;
    const bytes = await bodies.get(given);
    if (bytes === undefined) {
      // As there: a row that names what is not to be had.
      row[name] = referenceToNothing(sizeOf(given));
      moved = plus(moved, { lostBodies: 1 });
      return;
    }
    const reference = referenceTo(bytes);
    await files.hold(reference, bytes);
    row[name] = reference;
    moved = plus(moved, { bodies: 1, bodyBytes: bytes.byteLength });
  });
  return { placed, moved };
}

/** Endpoints with their totals, and schedules. Carried out again it is the same. */
async function writeRest({ query, target }: ToSqliteOptions): Promise<void> {
  const shards = await query<{ shard: number; epoch: number }>("SELECT shard, epoch FROM queue_shards");
  const epochs = new Map(shards.map(({ shard, epoch }) => [shard, epoch]));
  const { endpoints } = await loadState(query, {
    epochOf: (shard) => epochs.get(shard),
    shards: undefined,
    writer: undefined,
  });
  const schedules = await query<ReadRow>("SELECT endpoint, spec, until, paused, tick, job FROM job_schedules");
  inTransaction(target, () => {
    target.exec("DELETE FROM queue_endpoints; DELETE FROM schedules");
    const counted = target.prepare("SELECT count(*) AS n FROM jobs WHERE endpoint = ? AND state IN (?, ?)");
    const rowsOf = (...values: number[]) => (counted.get(...values) as { n: number }).n;
    const insert = target.prepare(
      "INSERT INTO queue_endpoints (number, id, completed, failed, retried) VALUES (?, ?, ?, ?, ?)",
    );
    for (const { number, id, completed, failed, retried } of endpoints) {
      // What is still there is counted from its rows.
      const [done, undone] = [rowsOf(number, COMPLETED, COMPLETED), rowsOf(number, FAILED, TIMED_OUT)];
      insert.run(number, id, completed - done, failed - undone, retried);
    }
    const schedule = target.prepare(
      "INSERT INTO schedules (endpoint, spec, until, paused, tick, job) VALUES (?, ?, ?, ?, ?, ?)",
    );
    for (const row of schedules) schedule.run(...Object.values(row));
  });
}

function inTransaction(target: DatabaseSync, work: () => void): void {
  target.exec("BEGIN IMMEDIATE");
  try {
    work();
    target.exec("COMMIT");
  } catch (error) {
    if (target.isTransaction) target.exec("ROLLBACK");
    throw error;
  }
}
