/** The side of the queue that looks and waits. Reads go straight to the rows; nothing here writes. */
import { isFinal, JOB_STATES, type JobState, runsyncIdStart } from "../../domain/job.ts";
import { INLINE_BODY_MAX_BYTES } from "../../domain/limits.ts";
import {
  type Body,
  bySeq,
  expiredJob,
  IN_PROGRESS,
  IN_QUEUE,
  inRow,
  type JobRow,
  jobOfRow,
  leftOut,
  stateOf,
  textOf,
} from "../machine/job-row.ts";
import type { Job, JobReader } from "../queue.ts";
import type { QueueCore } from "./core.ts";

type Result = { readonly output: Body | null; readonly error: Body | null };

export function queueReads(core: QueueCore): Omit<JobReader, "search"> {
  const { sql, live } = core;

  async function find(jobId: string, outputMaxBytes = Infinity): Promise<Job | undefined> {
    const row = sql.job.get(jobId) as unknown as (JobRow & Result) | undefined;
    const endpointId = row && live.idOf(row.endpoint);
    if (row === undefined || endpointId === undefined) return undefined;
    const without = leftOut(row.output, outputMaxBytes);
    const body = without === undefined ? row.output : null;
    const output = typeof body === "string" ? ((await core.files.read(body)) ?? null) : body;
    const error = typeof row.error === "string" ? await core.files.read(row.error) : row.error;
    const job = jobOfRow(row, endpointId, output, textOf(error ?? null));
    return without === undefined ? job : { ...job, leftOutBytes: without };
  }

  return {
    find,

    async findExpired(jobId) {
      const row = sql.expired.get(jobId) as unknown as JobRow | undefined;
      const endpointId = row && live.idOf(row.endpoint);
      return endpointId === undefined ? undefined : expiredJob(row!, endpointId);
    },

    async input(jobId, maxBytes = Infinity) {
      const row = sql.input.get(jobId) as { input: Body } | undefined;
      if (typeof row?.input !== "string") return row?.input;
      // What is in a file is larger than what a row takes.
      return maxBytes <= INLINE_BODY_MAX_BYTES ? undefined : core.files.read(row.input);
    },

    async list(endpointId, { state, limit, before, idStart, expired = false }) {
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined) return [];
      const start = before === undefined ? { seq: Number.MAX_SAFE_INTEGER } : sql.seqOf.get(before);
      if (start === undefined) return [];
      const rows =
        idStart === undefined
          ? newest(core, endpoint.number, state, start.seq as number, limit, expired)
          : beginning(core, endpoint.number, idStart, limit, expired);
      return rows.map((row) => {
        if (row.expired === 1) return expiredJob(row, endpointId);
        const { output, error } = sql.resultBodies.get(row.seq) as unknown as Result;
        return jobOfRow(row, endpointId, inRow(output), textOf(inRow(error)));
      });
    },

    async counts(endpointId) {
      const endpoint = live.endpoints.get(endpointId);
      return {
        ...live.countsOf(endpoint),
        oldestQueuedAt: endpoint !== undefined && endpoint.inQueue > 0 ? oldestQueuedAt(core, endpoint.number) : null,
      };
    },

    claimsOf: async (workerId) => live.claimsOf(workerId),

    async wait(jobId, timeoutMs, signal) {
      if (!live.running.has(jobId)) {
        const row = sql.meta.get(jobId) as unknown as JobRow | undefined;
        if (row === undefined) return undefined;
        if (isFinal(stateOf(row))) return find(jobId);
      }
      return (await core.finals.wait(jobId, timeoutMs, signal)) ?? find(jobId);
    },
  };
}

function oldestQueuedAt(core: QueueCore, endpoint: number): number | null {
  const times = [0, 1].flatMap((lowPriority) => {
    const row = core.sql.oldestQueued.get(endpoint, lowPriority) as { created_at: number } | undefined;
    return row === undefined ? [] : [row.created_at];
  });
  return times.length === 0 ? null : Math.min(...times);
}

/** The newest rows before `seq`: the newest of each state by its index, merged. */
function newest(
  core: QueueCore,
  endpoint: number,
  state: JobState | undefined,
  seq: number,
  limit: number,
  expired: boolean,
): JobRow[] {
  const states = state === undefined ? [...JOB_STATES.keys()] : [JOB_STATES.indexOf(state)];
  const rows = states.flatMap((index) => newestRows(core, endpoint, index, seq, limit, expired));
  return rows.sort(bySeq).slice(0, limit);
}

/** The newest of one state before `seq`, unsorted: at least the `limit` newest, if there are so many. */
export function newestRows(
  { live, sql }: QueueCore,
  endpoint: number,
  state: number,
  seq: number,
  limit: number,
  expired: boolean,
): JobRow[] {
  if (state === IN_PROGRESS) return runningRows({ live, sql }, endpoint, seq);
  if (state !== IN_QUEUE) {
    const lists = expired ? [sql.listFinal, sql.listExpired] : [sql.listFinal];
    return lists.flatMap((list) => list.all(endpoint, state, seq, limit) as unknown as JobRow[]);
  }
  const queued = [0, 1].flatMap((low) => sql.listQueued.all(endpoint, low, seq, limit));
  return [...queued, ...sql.delayedOf.all(endpoint, seq, limit)] as unknown as JobRow[];
}

/** Newest first: ids begin with the time. */
function beginning({ sql }: QueueCore, endpoint: number, idStart: string, limit: number, expired: boolean): JobRow[] {
  const lists = expired ? [sql.idsFrom, sql.expiredIdsFrom] : [sql.idsFrom];
  const starts = [idStart, runsyncIdStart(idStart)];
  const rows = starts.flatMap((start) =>
    lists.flatMap((list) => list.all(start, `${start}~`, endpoint, limit) as unknown as JobRow[]),
  );
  return rows.sort(bySeq).slice(0, limit);
}

function runningRows({ live, sql }: Pick<QueueCore, "live" | "sql">, endpoint: number, seq: number): JobRow[] {
  const rows: JobRow[] = [];
  for (const job of live.running.values()) {
    if (job.endpoint.number !== endpoint || job.seq >= seq) continue;
    rows.push(sql.meta.get(job.id) as unknown as JobRow);
  }
  return rows;
}
