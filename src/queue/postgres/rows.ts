/** How rows are read. */
import type { LiveState } from "../machine/live-state.ts";
import { arrayOf } from "./arrays.ts";
import type { Query } from "./connection.ts";
import type { ReadRow } from "./records.ts";

const COLUMNS = [
  ...["seq", "id", "endpoint", "state", "low_priority", "fence", "retries", "attempts", "worker_id", "created_at"],
  ...["started_at", "finished_at", "expires_at", "due_at", "ttl_ms", "retention_ms", "execution_timeout_ms", "method"],
  ...["webhook", "key", "input_ref", "output_ref", "error_ref", "expired", "line"],
];
const HERE = { expired: "NULL::int", line: "''::text" };
/** What is not known of a job any more has the type's empty value. */
const UNKNOWN = {
  ...{ low_priority: "0::int2", fence: "0::int8", expires_at: "0::int8", due_at: "NULL::int8", ttl_ms: "0::int8" },
  ...{
    retention_ms: "0::int8",
    execution_timeout_ms: "0::int8",
    method: "''::text",
    webhook: "''::text",
    key: "''::text",
  },
  ...{ input_ref: "NULL::text", output_ref: "NULL::text", error_ref: "NULL::text", expired: "1" },
};

function columns(instead: Readonly<Record<string, string>>): string {
  return COLUMNS.map((name) => (name in instead ? `${instead[name]} AS ${name}` : name)).join(", ");
}

/** Columns of a row as ReadRow, bodies apart; those of all tables go together. */
export const OPEN = columns({ ...HERE, finished_at: "NULL::int8", error_ref: "NULL::text" });
export const DONE = columns(HERE);
const EXPIRED = columns(UNKNOWN);

/** The tables of jobs with columns that go together, bodies included. */
export const TABLES = {
  open: { table: "open_jobs", columns: `${OPEN}, output, NULL::bytea AS error` },
  done: { table: "done_jobs", columns: `${DONE}, output, error` },
  expired: { table: "expired_jobs", columns: `${EXPIRED}, NULL::bytea AS output, NULL::bytea AS error` },
};

export type ListedRow = ReadRow & {
  readonly output: Uint8Array | null;
  readonly error: Uint8Array | null;
  readonly line: string;
};

export type FoundRow = ReadRow & {
  readonly place: "open" | "done";
  /** What its chunks count together: their bytes, and how many they are. */
  readonly chunk_bytes?: number;
  readonly chunk_count?: number;
};

const CHUNKS = `(SELECT coalesce(sum(c.bytes), 0)::int8 FROM job_chunks c WHERE c.job = j.seq) AS chunk_bytes,
  (SELECT count(*) FROM job_chunks c WHERE c.job = j.seq) AS chunk_count`;
const FIND = `SELECT ${OPEN}, 'open' AS place, ${CHUNKS} FROM open_jobs j WHERE id = $1
  UNION ALL SELECT ${DONE}, 'done', ${CHUNKS} FROM done_jobs j WHERE id = $1`;

export async function findRow(query: Query, jobId: string): Promise<FoundRow | undefined> {
  return (await query<FoundRow>(FIND, [jobId]))[0];
}

export const QUEUED = `SELECT ${OPEN}, 'open' AS place, input FROM open_jobs
  WHERE endpoint = $1 AND state = 0 AND low_priority = $2 AND seq > $3 ORDER BY seq LIMIT $4`;

/** Queued jobs of an endpoint and priority behind a number, with their inputs. */
export function queuedAfter(query: Query, endpoint: number, lowPriority: number, after: number, limit: number) {
  return query<ReadRow>(QUEUED, [endpoint, lowPriority, after, limit]);
}

/** Some queued jobs of an endpoint up to a number, or all that are delayed. */
export function waitingRows(query: Query, endpoint: number, state: number, upTo: number, limit: number) {
  return query<ReadRow>(
    `SELECT ${OPEN} FROM open_jobs WHERE endpoint = $1 AND state = ${state} AND seq <= $2 ORDER BY seq LIMIT $3`,
    [endpoint, upTo, limit],
  );
}

/** `within`: which shards (core.ts). */
export function expiredQueuedRows(query: Query, now: number, limit: number, within: string) {
  return query<ReadRow>(
    `SELECT ${OPEN} FROM open_jobs WHERE state = 0 AND expires_at <= $1${within} ORDER BY expires_at LIMIT $2`,
    [now, limit],
  );
}

/** Without those whose endpoint is gone, as earlier versions left some: they are deleted, and nothing in memory counts them. */
export async function ofEndpoints(
  query: Query,
  live: LiveState,
  rows: readonly ReadRow[],
): Promise<readonly ReadRow[]> {
  const isKnown = (endpoint: number) => live.idOf(endpoint) !== undefined;
  const lone = rows.filter(({ endpoint }) => !isKnown(endpoint)).map(({ seq }) => seq);
  const isGone = "NOT EXISTS (SELECT FROM queue_endpoints e WHERE e.number = o.endpoint)";
  if (lone.length > 0)
    await query(`DELETE FROM open_jobs o WHERE o.seq = ANY($1::int8[]) AND ${isGone}`, [arrayOf("int8", lone)]);
  return lone.length === 0 ? rows : rows.filter(({ endpoint }) => isKnown(endpoint));
}

export function dueRows(query: Query, now: number, limit: number, within: string) {
  return query<ReadRow>(
    `SELECT ${OPEN} FROM open_jobs WHERE state = -1 AND due_at <= $1${within} ORDER BY due_at LIMIT $2`,
    [now, limit],
  );
}

/** The queued jobs of an endpoint among these. */
export function waitingNamed(query: Query, endpoint: number, ids: readonly string[]): Promise<ReadRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return query<ReadRow>(`SELECT ${OPEN} FROM open_jobs WHERE id = ANY($1) AND endpoint = $2 AND state = 0`, [
    ids,
    endpoint,
  ]);
}
