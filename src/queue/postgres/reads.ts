/** The side of the queue that looks and waits: rows as they are committed. Nothing here writes. */
import { isFinal, JOB_STATES, runsyncIdStart } from "../../domain/job.ts";
import { INLINE_BODY_MAX_BYTES } from "../../domain/limits.ts";
import { bySeq, DELAYED, expiredJob, IN_PROGRESS, IN_QUEUE, jobOfRow, leftOut, textOf } from "../machine/job-row.ts";
import type { Job, JobReader } from "../queue.ts";
import type { PostgresCore } from "./core.ts";
import type { EndpointNames } from "./endpoint-names.ts";
import { inShards, shardOfNumber } from "./ownership.ts";
import { type ListedRow, TABLES } from "./rows.ts";

const FIND = [TABLES.open, TABLES.done]
  .map(({ columns, table }) => `SELECT ${columns} FROM ${table} WHERE id = $1`)
  .join(" UNION ALL ");

export function queueReads(core: PostgresCore, names: EndpointNames): Omit<JobReader, "search"> {
  const { db, live } = core;

  async function find(jobId: string, outputMaxBytes = Number.POSITIVE_INFINITY): Promise<Job | undefined> {
    const [row] = await db.read<ListedRow>(FIND, [jobId]);
    if (row === undefined) return undefined;
    const without = leftOut(row.output_ref, outputMaxBytes);
    const reference = without === undefined ? row.output_ref : null;
    const output = reference === null ? row.output : ((await core.bodies.read(reference)) ?? null);
    const error = row.error_ref === null ? row.error : ((await core.bodies.read(row.error_ref)) ?? null);
    const endpointId = await names.idOf(row.endpoint);
    if (endpointId === undefined) return undefined;
    const job = jobOfRow(row, endpointId, output, textOf(error));
    return without === undefined ? job : { ...job, leftOutBytes: without };
  }

  return {
    find,

    async findExpired(jobId) {
      const [row] = await db.read<ListedRow>(`SELECT ${TABLES.expired.columns} FROM expired_jobs WHERE id = $1`, [
        jobId,
      ]);
      const endpointId = row && (await names.idOf(row.endpoint));
      return endpointId === undefined ? undefined : expiredJob(row!, endpointId);
    },

    async input(jobId, maxBytes = Number.POSITIVE_INFINITY) {
      const [row] = await db.read<{ input: Uint8Array | null; input_ref: string | null }>(
        `SELECT input, input_ref FROM open_jobs WHERE id = $1 UNION ALL SELECT input, input_ref FROM done_jobs WHERE id = $1`,
        [jobId],
      );
      if (row === undefined || row.input_ref === null) return row?.input ?? undefined;
      return maxBytes <= INLINE_BODY_MAX_BYTES ? undefined : core.bodies.read(row.input_ref);
    },

    async list(endpointId, { state, limit, before, idStart, expired = false }) {
      const number = await names.numberOf(endpointId);
      if (number === 0) return [];
      const states = state === undefined ? [...JOB_STATES.keys()] : [JOB_STATES.indexOf(state)];
      const rows =
        idStart === undefined
          ? await newest(core, [number], states, await seqOf(before), limit, expired)
          : await beginning(number, idStart, limit, expired);
      return rows.map((row) => {
        return row.expired === 1
          ? expiredJob(row, endpointId)
          : jobOfRow(row, endpointId, row.output, textOf(row.error));
      });
    },

    async counts(endpointId) {
      const endpoint = live.endpoints.get(endpointId);
      return {
        ...live.countsOf(endpoint),
        oldestQueuedAt: endpoint !== undefined && endpoint.inQueue > 0 ? await oldestQueuedAt(endpoint) : null,
      };
    },

    claimsOf: async (workerId) => live.claimsOf(workerId),

    async wait(jobId, timeoutMs, signal) {
      // Waited for before it is looked at: an end in between is not missed.
      const { comes, end } = core.finals.begin(jobId, timeoutMs, signal);
      try {
        if (!live.running.has(jobId) && !isQueuedHere(jobId)) {
          const job = await find(jobId);
          if (job === undefined || isFinal(job.state)) return job;
          core.check(job.endpointId);
        }
        const known = await comes;
        if (known !== undefined) return known;
        const job = await find(jobId);
        if (job !== undefined && !isFinal(job.state)) core.check(job.endpointId);
        return job;
      } finally {
        end();
      }
    },
  };

  /** It is among the next of its endpoint, which are in memory: its row need not be looked for. */
  function isQueuedHere(jobId: string): boolean {
    const record = core.record(jobId);
    return record !== undefined && record.stored === "open" && record.state === IN_QUEUE && !record.isGone;
  }

  async function seqOf(jobId: string | undefined): Promise<number> {
    if (jobId === undefined) return Number.MAX_SAFE_INTEGER;
    const [row] = await db.read<{ seq: number }>(
      `SELECT seq FROM open_jobs WHERE id = $1 UNION ALL SELECT seq FROM done_jobs WHERE id = $1
       UNION ALL SELECT seq FROM expired_jobs WHERE id = $1`,
      [jobId],
    );
    return row?.seq ?? 0;
  }

  /** Newest first: ids begin with the time. */
  async function beginning(endpoint: number, idStart: string, limit: number, expired: boolean): Promise<ListedRow[]> {
    const rows = await Promise.all(
      [idStart, runsyncIdStart(idStart)].map((start) => idsFrom(core, start, limit, expired, endpoint)),
    );
    return rows.flat().sort(bySeq).slice(0, limit);
  }

  async function oldestQueuedAt(endpoint: Parameters<typeof core.heads.oldest>[0]): Promise<number | null> {
    const atHand = [0, 1].flatMap((low) => core.heads.oldest(endpoint, low)?.created_at ?? []);
    const waiting = [endpoint.inQueue - endpoint.inQueueLowPriority, endpoint.inQueueLowPriority];
    if (atHand.length === waiting.filter((count) => count > 0).length) return Math.min(...atHand);
    const oldest = (low: number) => `(SELECT created_at FROM open_jobs WHERE endpoint = $1 AND state = 0
      AND low_priority = ${low} ORDER BY seq LIMIT 1)`;
    const [row] = await db.read<{ at: number | null }>(`SELECT least(${oldest(0)}, ${oldest(1)}) AS at`, [
      endpoint.number,
    ]);
    return row!.at;
  }
}

/** Some with such ids, of one endpoint or of all. */
export function idsFrom(core: PostgresCore, start: string, limit: number, expired: boolean, endpoint?: number) {
  const of = endpoint === undefined ? "" : "AND endpoint = $4";
  const lists = tables(expired).map(({ columns, table }) => {
    return `(SELECT ${columns} FROM ${table} WHERE id >= $1 AND id < $2 ${of} ORDER BY id DESC LIMIT $3)`;
  });
  const values = [start, `${start}~`, limit, ...(endpoint === undefined ? [] : [endpoint])];
  return core.db.read<ListedRow>(lists.join(" UNION ALL "), values);
}

function tables(expired: boolean) {
  return expired ? [TABLES.open, TABLES.done, TABLES.expired] : [TABLES.open, TABLES.done];
}

/** The newest rows of endpoints and states before `seq`: the newest of each by its index, merged. */
export async function newest(
  core: PostgresCore,
  endpoints: readonly number[],
  states: readonly number[],
  seq: number,
  limit: number,
  expired: boolean,
): Promise<ListedRow[]> {
  const lists: string[] = [];
  const last = ({ columns, table }: (typeof TABLES)["open"], where: string) =>
    lists.push(`(SELECT ${columns} FROM ${table} WHERE ${where} AND seq < $1 ORDER BY seq DESC LIMIT $2)`);
  const running = [...core.live.running.values()].filter((job) => endpoints.includes(job.endpoint.number));
  const elsewhere = endpoints.filter((number) => !core.ownership.has(shardOfNumber(number)));
  for (const state of states) {
    if (state === IN_PROGRESS) {
      last(TABLES.open, "seq = ANY($3)");
      // Of others' it is not in memory which they are.
      const where = `state = ${IN_PROGRESS} AND endpoint = ANY('{${elsewhere.join(",")}}')`;
      if (elsewhere.length > 0) last(TABLES.open, `${where} AND ${inShards("seq", elsewhere.map(shardOfNumber))}`);
    }
    for (const endpoint of endpoints) {
      const of = `endpoint = ${endpoint} AND state = ${state}`;
      if (state === IN_QUEUE) {
        for (const low of [0, 1]) last(TABLES.open, `${of} AND low_priority = ${low}`);
        last(TABLES.open, `endpoint = ${endpoint} AND state = ${DELAYED}`);
      } else if (state !== IN_PROGRESS) {
        last(TABLES.done, of);
        if (expired) last(TABLES.expired, of);
      }
    }
  }
  if (lists.length === 0) return [];
  const values = [seq, limit, ...(states.includes(IN_PROGRESS) ? [running.map((job) => job.seq)] : [])];
  const rows = await core.db.read<ListedRow>(lists.join(" UNION ALL "), values);
  return rows
    .filter((row) => states.includes(row.state === DELAYED ? IN_QUEUE : row.state))
    .sort(bySeq)
    .slice(0, limit);
}
