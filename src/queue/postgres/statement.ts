/**
 * The one statement of a batch:
 *
 *   own      the rows of its shards, held FOR SHARE: who takes a shard over waits for the batch, and a batch that comes later finds none
 *   log      its row in the journal, once: when it is sent again nothing else of it is carried out; and only behind the row of the batch
 *            before it, which a standby that took over may lack: then what is in memory is not what is in the rows
 *   …        the rows that changed, found by `seq` and fence alone
 *
 * and fails as a whole when it does not find every row that it is to change.
 */
import { QUEUE_TEXTS_MAX } from "../../domain/limits.ts";
import { CANCELLED, COMPLETED } from "../machine/job-row.ts";
import { arrayOf, type ColumnType, type ColumnValue } from "./arrays.ts";
import type { JobRecord } from "./records.ts";

export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface StatementAnswer {
  /** Shards that are still this platform's. */
  readonly own: number;
  readonly log: number;
  /** 1 when an earlier try was carried out. */
  readonly before: number;
  /** Whether the batch before it is there. */
  readonly follows: boolean;
  /** Of the chunks that are gone. */
  readonly refs: readonly string[] | null;
}

export type Row = readonly ColumnValue[];

export interface Column<T> {
  readonly name: string;
  readonly type: ColumnType;
  readonly of: (item: T) => ColumnValue;
}

type JobColumn = Column<JobRecord>;
const bytes = (body: unknown) => (typeof body === "string" ? null : (body as Uint8Array | null));
const ref = (body: unknown) => (typeof body === "string" ? body : null);
const SEQ: JobColumn = { name: "seq", type: "int8", of: (job) => job.seq };
const WAS: JobColumn = { name: "was", type: "int8", of: (job) => job.storedFence };
/** What a job's way changes. */
const CHANGING: readonly JobColumn[] = [
  { name: "state", type: "int2", of: (job) => job.state },
  { name: "fence", type: "int8", of: (job) => job.fence },
  { name: "retries", type: "int4", of: (job) => job.retries },
  { name: "attempts", type: "int4", of: (job) => job.attempts },
  { name: "worker_id", type: "text", of: (job) => job.worker_id },
  { name: "created_at", type: "int8", of: (job) => job.created_at },
  { name: "started_at", type: "int8", of: (job) => job.started_at },
  { name: "expires_at", type: "int8", of: (job) => job.expires_at },
  { name: "due_at", type: "int8", of: (job) => job.due_at },
];
const LASTING: readonly JobColumn[] = [
  { name: "id", type: "text", of: (job) => job.id },
  { name: "endpoint", type: "int4", of: (job) => job.endpoint },
  { name: "low_priority", type: "int2", of: (job) => job.low_priority },
  { name: "ttl_ms", type: "int8", of: (job) => job.ttl_ms },
  { name: "retention_ms", type: "int8", of: (job) => job.retention_ms },
  { name: "execution_timeout_ms", type: "int8", of: (job) => job.execution_timeout_ms },
  { name: "method", type: "text", of: (job) => job.method },
  { name: "webhook", type: "text", of: (job) => job.webhook },
  { name: "key", type: "text", of: (job) => job.key },
];
const INPUT: readonly JobColumn[] = [
  { name: "input", type: "bytea", of: (job) => bytes(job.input) },
  { name: "input_ref", type: "text", of: (job) => ref(job.input) },
];
const RESULT: readonly JobColumn[] = [
  { name: "finished_at", type: "int8", of: (job) => job.finished_at },
  { name: "output", type: "bytea", of: (job) => bytes(job.output) },
  { name: "output_ref", type: "text", of: (job) => ref(job.output) },
  { name: "error", type: "bytea", of: (job) => bytes(job.error) },
  { name: "error_ref", type: "text", of: (job) => ref(job.error) },
];
export const NEW_OPEN = [SEQ, ...LASTING, ...CHANGING, ...INPUT];
export const NEW_DONE = [...NEW_OPEN, ...RESULT];
const names = (columns: readonly { readonly name: string }[], prefix = "") =>
  columns.map(({ name }) => prefix + name).join(", ");
const set = (columns: readonly { readonly name: string }[]) =>
  columns.map(({ name }) => `${name} = t.${name}`).join(", ");
const KEPT = [...LASTING, ...INPUT];
const ONCE = "EXISTS (SELECT FROM log)";

/** How a kind of change is written; `t` is the rows of it that are sent. */
export interface Part<T> {
  readonly name: string;
  readonly columns: readonly Column<T>[];
  /** Common table expressions, by the name that counts. `keys`: an array of each column. */
  readonly sql: (rows: string, keys: readonly string[]) => string;
  /** Whether every row that is sent has to be found. */
  readonly exact: boolean;
}

const column = <T>(name: string, type: ColumnType, of: (item: T) => ColumnValue): Column<T> => ({ name, type, of });
const inserted = <T>(name: string, table: string, columns: readonly Column<T>[], conflict = ""): Part<T> => ({
  name,
  columns,
  exact: true,
  sql: (rows) => `${name} AS (INSERT INTO ${table} (${names(columns)})
    SELECT ${names(columns, "t.")} FROM ${rows} WHERE ${ONCE} ${conflict} RETURNING 1)`,
});
const deleted = <T>(
  name: string,
  table: string,
  on: (keys: readonly string[]) => string,
  columns: readonly Column<T>[],
  exact: boolean,
): Part<T> => ({
  name,
  columns,
  exact,
  sql: (rows, keys) => `${name} AS (DELETE FROM ${table} o USING ${rows} WHERE ${on(keys)} AND ${ONCE} RETURNING 1)`,
});
/**
 * Every row is looked up in the index, whatever is believed of the table's size (see LOOK_UP): of those that are joined
 * only, a plan that was made while the table was small would read the whole of it, for as long as the connection lasts.
 */
const by =
  (name: string) =>
  ([keys]: readonly string[]) =>
    `o.${name} = ANY(${keys}) AND o.${name} = t.${name}`;
const bySeq = by("seq");
const byFence = (keys: readonly string[]) => `${bySeq(keys)} AND o.fence = t.was`;

export const OPEN_IN = inserted("open_in", "open_jobs", NEW_OPEN);
export const DONE_IN = inserted("done_in", "done_jobs", NEW_DONE);
export const OPEN_UP: Part<JobRecord> = {
  name: "open_up",
  columns: [SEQ, WAS, ...CHANGING],
  exact: true,
  sql: (rows, keys) => `open_up AS (UPDATE open_jobs o SET ${set(CHANGING)}, output = NULL, output_ref = NULL
    FROM ${rows} WHERE ${byFence(keys)} AND ${ONCE} RETURNING 1)`,
};
const FINAL = RESULT.filter(({ name }) => !name.startsWith("output"));
/** What a cancelled job said last stays. */
const kept = (name: string) => `CASE WHEN t.state = ${CANCELLED} THEN o.${name} ELSE t.${name} END AS ${name}`;
/** From open to done. */
export const FINISH: Part<JobRecord> = {
  name: "finish",
  columns: [SEQ, WAS, ...CHANGING, ...RESULT],
  exact: true,
  sql: (rows, keys) => `taken AS (DELETE FROM open_jobs o USING ${rows} WHERE ${byFence(keys)} AND ${ONCE}
      RETURNING ${names(KEPT, "o.")}, ${names([SEQ, ...CHANGING, ...FINAL], "t.")}, ${kept("output")}, ${kept("output_ref")}),
    finish AS (INSERT INTO done_jobs (${names([...KEPT, SEQ, ...CHANGING, ...RESULT])})
      SELECT ${names([...KEPT, SEQ, ...CHANGING, ...RESULT])} FROM taken RETURNING 1)`,
};
const TIMES = ["ttl_ms", "retention_ms", "execution_timeout_ms"];
const PLAIN = ["seq", "id", "endpoint", "low_priority", "state", "fence", "worker_id", "created_at", "started_at"];
const PLAIN_COLUMNS = NEW_OPEN.filter(({ name }) => [...PLAIN, ...TIMES, "input"].includes(name));
/** As OPEN_IN, of a job that has what most have: half the columns, and that is half of what a short batch costs. */
export const PLAIN_IN: Part<JobRecord> = {
  name: "plain_in",
  columns: PLAIN_COLUMNS,
  exact: true,
  sql: (rows) => `plain_in AS (INSERT INTO open_jobs
      (${names(PLAIN_COLUMNS)}, expires_at, retries, attempts, method, webhook, key)
    SELECT ${names(PLAIN_COLUMNS, "t.")}, t.created_at + t.ttl_ms, 0, 0, '', '', '' FROM ${rows}
    WHERE ${ONCE} RETURNING 1)`,
};
const COMPLETES = ["expires_at", "finished_at", "output"];
const COMPLETING = [SEQ, WAS, ...[...CHANGING, ...RESULT].filter(({ name }) => COMPLETES.includes(name))];
const AS_WAS = CHANGING.filter(({ name }) => !["state", "expires_at", "due_at"].includes(name));
/** As FINISH, of a job that completed. */
export const PLAIN_FINISH: Part<JobRecord> = {
  name: "plain_finish",
  columns: COMPLETING,
  exact: true,
  sql: (rows, keys) => `plain_taken AS (DELETE FROM open_jobs o USING ${rows} WHERE ${byFence(keys)} AND ${ONCE}
      RETURNING ${names([SEQ, ...KEPT, ...AS_WAS], "o.")}, t.expires_at, t.finished_at, t.output),
    plain_finish AS (INSERT INTO done_jobs (${names([SEQ, ...KEPT, ...AS_WAS])}, ${COMPLETES.join(", ")}, state)
      SELECT ${names([SEQ, ...KEPT, ...AS_WAS])}, ${COMPLETES.join(", ")}, ${COMPLETED} FROM plain_taken RETURNING 1)`,
};
/** From done to open. */
export const AGAIN: Part<JobRecord> = {
  name: "again",
  columns: [SEQ, ...CHANGING],
  exact: true,
  sql: (rows, keys) => `back AS (DELETE FROM done_jobs o USING ${rows} WHERE ${bySeq(keys)} AND ${ONCE}
      RETURNING ${names(KEPT, "o.")}, ${names([SEQ, ...CHANGING], "t.")}),
    again AS (INSERT INTO open_jobs (${names([...KEPT, SEQ, ...CHANGING])})
      SELECT ${names([...KEPT, SEQ, ...CHANGING])} FROM back RETURNING 1)`,
};
export const DONE_UP: Part<JobRecord> = {
  name: "done_up",
  columns: [SEQ, ...CHANGING, ...RESULT],
  exact: true,
  sql: (rows, keys) => `done_up AS (UPDATE done_jobs o SET ${set([...CHANGING, ...RESULT])}
    FROM ${rows} WHERE ${bySeq(keys)} AND ${ONCE} RETURNING 1)`,
};
export const OPEN_OUT = deleted<JobRecord>("open_out", "open_jobs", byFence, [SEQ, WAS], true);
export const DONE_OUT = deleted<JobRecord>("done_out", "done_jobs", bySeq, [SEQ], true);
export const PROGRESS: Part<JobRecord> = {
  name: "progress",
  columns: [SEQ, WAS, ...RESULT.slice(1, 3)],
  exact: true,
  sql: (rows, keys) => `progress AS (UPDATE open_jobs o SET output = t.output, output_ref = t.output_ref
    FROM ${rows} WHERE ${byFence(keys)} AND ${ONCE} RETURNING 1)`,
};

type Tuple = Row;
const tuple = (...columns: readonly (readonly [string, ColumnType])[]) =>
  columns.map(([name, type], index) => column<Tuple>(name, type, (row) => row[index]));

export const CHUNK_IN = inserted(
  "chunk_in",
  "job_chunks",
  tuple(["job", "int8"], ["n", "int8"], ["bytes", "int8"], ["body", "bytea"], ["ref", "text"]),
);
/** Of a job those up to a number. */
export const CHUNK_OUT: Part<Tuple> = {
  name: "chunk_out",
  columns: tuple(["job", "int8"], ["n", "int8"]),
  exact: false,
  sql: (
    rows,
    keys,
  ) => `chunk_out AS (DELETE FROM job_chunks o USING ${rows} WHERE ${by("job")(keys)} AND o.n <= t.n AND ${ONCE}
    RETURNING o.ref)`,
};
export const HOOK_IN = inserted(
  "hook_in",
  "job_webhooks",
  tuple(
    ["id", "int8"],
    ["job", "int8"],
    ["job_id", "text"],
    ["url", "text"],
    ["host", "text"],
    ["failures", "int4"],
    ["due_at", "int8"],
  ),
);
export const HOOK_OUT = deleted("hook_out", "job_webhooks", by("job"), tuple(["job", "int8"]), false);
/** Settled: without a time it is gone. */
export const HOOK_SETTLED: Part<Tuple> = {
  name: "hook_end",
  columns: tuple(["id", "int8"], ["due_at", "int8"]),
  exact: false,
  sql: (
    rows,
    keys,
  ) => `hook_end AS (DELETE FROM job_webhooks o USING ${rows} WHERE ${by("id")(keys)} AND t.due_at IS NULL
      AND ${ONCE} RETURNING 1),
    hook_up AS (UPDATE job_webhooks o SET failures = o.failures + 1, due_at = t.due_at
      FROM ${rows} WHERE ${by("id")(keys)} AND t.due_at IS NOT NULL AND ${ONCE} RETURNING 1)`,
};
export const KEY_IN = inserted(
  "key_in",
  "job_keys",
  tuple(["endpoint", "int4"], ["key", "text"], ["id", "text"]),
  "ON CONFLICT (endpoint, key) DO UPDATE SET id = excluded.id",
);
export const KEY_OUT = deleted(
  "key_out",
  "job_keys",
  () => "o.endpoint = t.endpoint AND o.key = t.key",
  tuple(["endpoint", "int4"], ["key", "text"]),
  false,
);
/** Counts of an endpoint, in the order in which the journal has them behind its number. */
export const COUNTED = ["in_queue", "in_queue_low", "delayed", "completed", "failed", "retried"] as const;
const COUNTS = COUNTED.map((name) => [name, "int8"] as const);
export const ENDPOINT_IN = inserted(
  "endpoint_in",
  "queue_endpoints",
  tuple(["number", "int4"], ["id", "text"], ["shard", "int4"], ...COUNTS),
);
export const ENDPOINT_UP: Part<Tuple> = {
  name: "endpoint_up",
  columns: tuple(["number", "int4"], ...COUNTS),
  exact: true,
  sql: (rows, keys) => `endpoint_up AS (UPDATE queue_endpoints o SET ${set(COUNTS.map(([name]) => ({ name })))}
    FROM ${rows} WHERE ${by("number")(keys)} AND ${ONCE} RETURNING 1)`,
};
export const ENDPOINT_OUT = deleted("endpoint_out", "queue_endpoints", by("number"), tuple(["number", "int4"]), true);
export const SCHEDULE_IN = inserted(
  "schedule_in",
  "job_schedules",
  tuple(
    ["endpoint", "text"],
    ["spec", "text"],
    ["until", "int8"],
    ["paused", "int2"],
    ["tick", "int8"],
    ["job", "text"],
  ),
  `ON CONFLICT (endpoint) DO UPDATE SET spec = excluded.spec, until = excluded.until, paused = excluded.paused,
    tick = excluded.tick, job = excluded.job`,
);
export const SCHEDULE_OUT = deleted(
  "schedule_out",
  "job_schedules",
  by("endpoint"),
  tuple(["endpoint", "text"]),
  false,
);
/** What earlier batches of this writer wrote is in the endpoints' rows now. */
export const JOURNAL_OUT = deleted(
  "journal_out",
  "queue_journal",
  () => "o.epoch = t.epoch AND o.n < t.n",
  tuple(["epoch", "int8"], ["n", "int8"]),
  false,
);

/** In the order of their bits in a statement's name. */
export const PARTS: readonly Part<never>[] = [
  ...[OPEN_IN, OPEN_UP, FINISH, DONE_IN, AGAIN, DONE_UP, OPEN_OUT, DONE_OUT, PROGRESS, CHUNK_IN, CHUNK_OUT, HOOK_IN],
  ...[HOOK_OUT, HOOK_SETTLED, KEY_IN, KEY_OUT, ENDPOINT_IN, ENDPOINT_UP, ENDPOINT_OUT, SCHEDULE_IN, SCHEDULE_OUT],
  ...[JOURNAL_OUT, PLAIN_IN, PLAIN_FINISH],
];

export interface Fence {
  readonly shards: readonly number[];
  readonly epochs: readonly number[];
  readonly nonces: readonly number[];
  /** Names its batches; the journal has it in its column epoch. */
  readonly writer: number;
  readonly n: number;
  /** Of the batch before it that was carried out; 0 when nothing depends on one. */
  readonly after: number;
  /** The highest number given so far. */
  readonly lastSeq: number;
}

/** Of the parameters 1 to 3. In order, so that two who lock several never wait for each other. */
export const OWN = `own AS MATERIALIZED (SELECT s.shard FROM queue_shards s
    JOIN unnest($1::int4[], $2::int8[], $3::int8[]) t(shard, epoch, nonce) USING (shard, epoch, nonce)
    ORDER BY s.shard FOR SHARE OF s)`;

/**
 * For the plan that this session makes of the next statement. It is not of a connection, because a pooler may put another behind it;
 * nothing is wrong where it is missing.
 */
const LOOK_UP = "set_config('enable_seqscan', 'off', false)";

/** undefined when there is nothing to write. `texts`: those made so far, by name. */
export function statementOf(
  changes: ReadonlyMap<Part<never>, readonly unknown[]>,
  fence: Fence,
  counts: string,
  texts = new Map<string, string>(),
): Statement | undefined {
  const { shards, epochs, nonces, writer, n, after, lastSeq } = fence;
  const values: unknown[] = [arrayOf("int4", shards), arrayOf("int8", epochs), arrayOf("int8", nonces)];
  values.push(writer, n, counts, lastSeq, shards.length, after);
  const parts: Part<never>[] = [];
  let expected = 0;
  let bits = 0;
  for (const [index, part] of PARTS.entries()) {
    const items = changes.get(part);
    if (items === undefined || items.length === 0) continue;
    bits |= 1 << index;
    parts.push(part);
    for (const { type, of } of part.columns) values.push(arrayOf(type, (items as never[]).map(of)));
    if (part.exact) expected += items.length;
  }
  if (bits === 0 && counts === "[]") return undefined;
  values.push(expected);
  const name = `svc-queue-${bits.toString(36)}`;
  let text = texts.get(name);
  if (text === undefined) {
    text = textOf(parts);
    if (texts.size === QUEUE_TEXTS_MAX) texts.clear();
    texts.set(name, text);
  }
  return { name, text, values };
}

/** Its parameters: nine of the fence, the columns of each part, and how many rows have to be found. */
function textOf(parts: readonly Part<never>[]): string {
  const [writer, n, counts, lastSeq, shards] = ["$4::int8", "$5::int8", "$6::text", "$7::int8", "$8::int"];
  const follows = `($9::int8 = 0 OR EXISTS (SELECT FROM queue_journal WHERE epoch = ${writer} AND n = $9::int8))`;
  let last = 9;
  const log = `log AS (INSERT INTO queue_journal SELECT ${writer}, ${n}, ${counts}, ${lastSeq}
    WHERE (SELECT count(*) FROM own) = ${shards} AND ${follows} ON CONFLICT DO NOTHING RETURNING 1)`;
  const ctes = [OWN, log];
  for (const part of parts) {
    const arrays = part.columns.map(({ type }) => `$${++last}::${type}[]`);
    ctes.push(part.sql(`unnest(${arrays.join(", ")}) t(${names(part.columns)})`, arrays));
  }
  const exact = parts.filter((part) => part.exact).map(({ name }) => `(SELECT count(*) FROM ${name})`);
  const refs = parts.includes(CHUNK_OUT as Part<never>)
    ? "(SELECT array_agg(ref) FROM chunk_out WHERE ref IS NOT NULL)"
    : "NULL";
  const changed = exact.length === 0 ? "0" : exact.join(" + ");
  return `WITH ${ctes.join(",\n")}
    SELECT (SELECT count(*) FROM own)::int AS own, (SELECT count(*) FROM log)::int AS log,
      (SELECT count(*) FROM queue_journal WHERE epoch = ${writer} AND n = ${n})::int AS before,
      ${follows} AS follows,
      ${refs} AS refs, ${LOOK_UP}, CASE WHEN ${ONCE} AND ${changed} <> $${++last}::int
        THEN 1 / (SELECT count(*) FROM own WHERE shard < 0) END AS missing`;
}
