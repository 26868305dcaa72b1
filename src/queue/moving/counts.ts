/** What a queue has, counted in its rows: the same before and after it was moved. */
import type { DatabaseSync } from "node:sqlite";
import type { Query } from "../postgres/connection.ts";

export type JobCounts = Readonly<Record<string, number>>;

const OF_JOBS = "state, count(*) AS n, count(*) FILTER (WHERE webhook <> '') AS hooked";

interface StateCount {
  readonly state: number;
  readonly n: number;
  readonly hooked: number;
}

export function countSqlite(database: DatabaseSync): JobCounts {
  const one = (sql: string) => (database.prepare(sql).get() as { n: number }).n;
  const jobs = database.prepare(`SELECT ${OF_JOBS} FROM jobs GROUP BY state`).all() as unknown as StateCount[];
  return {
    ...ofStates(jobs),
    keys: one("SELECT count(*) AS n FROM jobs WHERE idempotency_key IS NOT NULL"),
    chunks: one("SELECT count(*) AS n FROM chunks WHERE job IN (SELECT seq FROM jobs)"),
    chunkBytes: one("SELECT coalesce(sum(bytes), 0) AS n FROM chunks WHERE job IN (SELECT seq FROM jobs)"),
    webhooks: one("SELECT count(*) AS n FROM webhooks WHERE job IN (SELECT seq FROM jobs)"),
    expired: one("SELECT count(*) AS n FROM expired_jobs"),
    endpoints: one("SELECT count(*) AS n FROM queue_endpoints"),
    schedules: one("SELECT count(*) AS n FROM schedules"),
  };
}

export async function countPostgres(query: Query): Promise<JobCounts> {
  const one = async (sql: string) => (await query<{ n: number }>(sql))[0]!.n;
  const jobs = await query<StateCount>(
    `SELECT ${OF_JOBS} FROM (SELECT state, webhook FROM open_jobs UNION ALL SELECT state, webhook FROM done_jobs) j GROUP BY state`,
  );
  const known = "IN (SELECT seq FROM open_jobs UNION ALL SELECT seq FROM done_jobs)";
  const keyed = "(SELECT endpoint, key, id FROM open_jobs UNION ALL SELECT endpoint, key, id FROM done_jobs)";
  return {
    ...ofStates(jobs),
    keys: await one(`SELECT count(*) AS n FROM job_keys k JOIN ${keyed} j USING (endpoint, key, id)`),
    chunks: await one(`SELECT count(*) AS n FROM job_chunks WHERE job ${known}`),
    chunkBytes: await one(`SELECT coalesce(sum(bytes), 0)::int8 AS n FROM job_chunks WHERE job ${known}`),
    webhooks: await one(`SELECT count(*) AS n FROM job_webhooks WHERE job ${known}`),
    expired: await one("SELECT count(*) AS n FROM expired_jobs"),
    endpoints: await one("SELECT count(*) AS n FROM queue_endpoints"),
    schedules: await one("SELECT count(*) AS n FROM job_schedules"),
  };
}

function ofStates(rows: readonly StateCount[]): JobCounts {
  return Object.fromEntries(
    [...rows]
      .sort((a, b) => a.state - b.state)
      .flatMap(({ state, n, hooked }) => [
        [`state ${state}`, n],
        [`hooked ${state}`, hooked],
      ]),
  );
}
