/**
 * Final jobs leave in statements of their own, between two batches: what they took is freed, and that they ran is kept for a while.
 * Each may be carried out again when it is not known whether it was. Under the fence of their shards nothing leaves that another has:
 * bodies are deleted behind rows that were.
 */
import { errorLine } from "../../domain/job.ts";
import {
  DELETE_BATCH_ROWS,
  EXPIRED_ERROR_MAX_CHARS,
  EXPIRED_KEPT_MS,
  STREAM_CHUNK_COST_BYTES,
} from "../../domain/limits.ts";
import { CANCELLED, COMPLETED, FAILED, TIMED_OUT, textOf } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import { arrayOf } from "./arrays.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import { shardOfNumber } from "./ownership.ts";
import { OWN } from "./statement.ts";

const FINAL_STATES = [COMPLETED, FAILED, TIMED_OUT, CANCELLED];
/** A job is kept until its webhook is settled. */
const DELIVERED = "(d.webhook = '' OR NOT EXISTS (SELECT FROM job_webhooks w WHERE w.job = d.seq))";

interface Gone {
  readonly seq: number;
  readonly id: string;
  readonly endpoint: number;
  readonly state: number;
  readonly refs: readonly (string | null)[];
  readonly error: Uint8Array | null;
}

/** What has outlived its retention. Resolves how many jobs. */
export function sweepExpired(core: PostgresCore, now: number): Promise<number> {
  const expired = () => `d.expires_at <= $1 AND ${DELIVERED}${core.ownership.within("d.seq")} ORDER BY d.expires_at`;
  return sweep(core, true, expired, [now]);
}

/** The oldest of too many failed jobs of an endpoint. */
export async function trimFailed(core: PostgresCore, { number }: EndpointState, now: number): Promise<number> {
  let deleted = 0;
  for (const state of [FAILED, TIMED_OUT]) {
    const surplus =
      () => `d.endpoint = $1 AND d.state = $2 AND d.seq <= (SELECT seq FROM done_jobs WHERE endpoint = $1 AND state = $2
      ORDER BY seq DESC LIMIT 1 OFFSET $3) AND d.finished_at + d.retention_ms <= $4 AND ${DELIVERED}`;
    deleted += await sweep(core, true, surplus, [number, state, core.bounds.failedKeptMax, now]);
  }
  return deleted;
}

export async function forgetDone(core: PostgresCore, number: number): Promise<void> {
  await sweep(core, false, () => "d.endpoint = $1", [number]);
  await inBatches(core, () => ["endpoint = $1", [number]]);
}

export async function hasFinal(query: Query, endpoint: number): Promise<boolean> {
  const any = ["done_jobs", "expired_jobs"].map((table) => `EXISTS (SELECT FROM ${table} WHERE endpoint = $1)`);
  const [row] = await query<{ there: boolean }>(`SELECT ${any.join(" OR ")} AS there`, [endpoint]);
  return row!.there;
}

/** Drops what was kept of expired jobs long enough, and of each endpoint and state the oldest of too many. */
export async function trimExpired(core: PostgresCore): Promise<void> {
  await inBatches(core, () => ["kept_until <= $1", [core.clock()]]);
  for (const endpoint of [...core.expiredSince]) {
    for (const state of FINAL_STATES) {
      await inBatches(core, () => [
        `endpoint = $1 AND state = $2 AND seq <= (SELECT seq FROM expired_jobs WHERE endpoint = $1 AND state = $2
          ORDER BY seq DESC LIMIT 1 OFFSET $3)`,
        [endpoint.number, state, core.bounds.expiredKeptMax],
      ]);
    }
    core.expiredSince.delete(endpoint);
  }
}

async function inBatches(core: PostgresCore, wanted: () => [where: string, values: unknown[]]): Promise<void> {
  for (let count = DELETE_BATCH_ROWS; count === DELETE_BATCH_ROWS; ) {
    const [where, values] = wanted();
    const rows = await core.pipeline.alone((query) =>
      query(
        `DELETE FROM expired_jobs WHERE seq IN (SELECT seq FROM expired_jobs WHERE ${where} LIMIT ${DELETE_BATCH_ROWS}) RETURNING 1`,
        values,
      ),
    );
    count = rows.length;
  }
}

/** Ends also where another turns out to have their shards. */
async function sweep(core: PostgresCore, keepsTrace: boolean, where: () => string, values: readonly unknown[]) {
  let deleted = 0;
  for (;;) {
    const [found, count] = await core.pipeline.alone(async (query) => {
      const rows = await query<Gone>(
        `SELECT d.seq, d.id, d.endpoint, d.state, ARRAY[d.input_ref, d.output_ref, d.error_ref] AS refs,
           CASE WHEN d.state IN (${FAILED}, ${TIMED_OUT}) THEN d.error END AS error
         FROM done_jobs d WHERE ${where()} LIMIT ${DELETE_BATCH_ROWS}`,
        values,
      );
      const ours = rows.filter(({ seq }) => core.ownership.has(shardOfNumber(seq)));
      const leave = keepsTrace && core.storage.lack === undefined;
      return [rows.length, ours.length > 0 ? await remove(core, query, ours, leave) : 0] as const;
    });
    deleted += count;
    if (found < DELETE_BATCH_ROWS || count < found) return deleted;
  }
}

/** Resolves how many are gone: all, or none. */
async function remove(core: PostgresCore, query: Query, rows: readonly Gone[], keepsTrace: boolean): Promise<number> {
  const { shards, epochs, nonces } = core.ownership.fence(new Set(rows.map(({ seq }) => shardOfNumber(seq))));
  const gone = await query<{ seq: number; bytes: number | null; ref: string | null }>(
    `WITH ${OWN},
       gone AS (DELETE FROM done_jobs d USING unnest($4::int8[], $5::text[]) t(seq, line) WHERE d.seq = t.seq
         AND (SELECT count(*) FROM own) = $6 RETURNING d.*, t.line),
       trace AS (INSERT INTO expired_jobs (seq, id, endpoint, state, retries, attempts, worker_id, created_at, started_at,
           finished_at, kept_until, line)
         SELECT seq, id, endpoint, state, retries, attempts, worker_id, created_at, started_at, finished_at, $7::int8, line
         FROM gone WHERE $8::bool ON CONFLICT DO NOTHING),
       freed AS (DELETE FROM job_keys k USING gone g WHERE g.key <> '' AND k.endpoint = g.endpoint AND k.key = g.key
         AND k.id = g.id),
       hooks AS (DELETE FROM job_webhooks w USING gone g WHERE w.job = g.seq),
       chunks AS (DELETE FROM job_chunks c USING gone g WHERE c.job = g.seq RETURNING c.job, c.bytes, c.ref)
     SELECT g.seq, c.bytes, c.ref FROM gone g LEFT JOIN chunks c ON c.job = g.seq`,
    [
      arrayOf("int4", shards),
      arrayOf("int8", epochs),
      arrayOf("int8", nonces),
      arrayOf(
        "int8",
        rows.map(({ seq }) => seq),
      ),
      arrayOf("text", rows.map(lineOf)),
      shards.length,
      core.clock() + EXPIRED_KEPT_MS,
      keepsTrace,
    ],
  );
  if (gone.length === 0) return 0;
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  // What lost its endpoint, as earlier versions left some, goes as well.
  const stateOf = (number: number) => (core.live.idOf(number) === undefined ? undefined : core.live.of(number));
  for (const { seq, bytes, ref } of gone) {
    const { endpoint, id } = bySeq.get(seq)!;
    const state = stateOf(endpoint);
    if (bytes !== null && state !== undefined) core.live.chunks(state, id, -(bytes + STREAM_CHUNK_COST_BYTES));
    if (ref !== null) core.bodies.drop(ref);
  }
  for (const { id, endpoint, refs } of rows) {
    const state = stateOf(endpoint);
    if (keepsTrace && state !== undefined) core.expiredSince.add(state);
    for (const ref of refs) {
      if (ref === null) continue;
      state?.files.unnamed(ref);
      if (state?.files.has(ref) !== true) core.bodies.drop(ref);
    }
    core.finals.notify(id);
    core.chunks.notify(id);
  }
  return rows.length;
}

/** What is kept of a failed job's error: the type and the first line. One that lies elsewhere is not read for it. */
function lineOf({ error }: Gone): string {
  return error === null ? "" : errorLine(textOf(error), EXPIRED_ERROR_MAX_CHARS).replaceAll("\0", "");
}
