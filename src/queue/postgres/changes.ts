/**
 * How a job comes into the queue, and what callers change of it; what its worker changes is in ../machine/running-jobs.ts. Row, counts and
 * running jobs change together, and what others must hear is recorded for after the commit. A job that finds a waiting claim
 * is inserted as IN_PROGRESS: one write.
 */
import { SvcError } from "../../domain/errors.ts";
import {
  type Body,
  CANCELLED,
  FAILED,
  IN_PROGRESS,
  IN_QUEUE,
  sizeInRow,
  TIMED_OUT,
  timesOf,
} from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import { queueFull } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { Enqueued, Job, NewJob, Queue } from "../queue.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import type { JobRecord } from "./records.ts";

type Changes = Pick<Queue, "enqueue" | "retry"> & { cancel(jobId: string): Promise<boolean> };

export function queueChanges(core: PostgresCore, bodies: StoredBodies): Changes {
  return {
    enqueue: (job) =>
      bodies.store(
        job.id,
        [job.input],
        ([input]) =>
          core.ask((earlier: string | undefined) => insertJob(core, job, input!, earlier), {
            ...((job.idempotencyKey !== "" || job.isSentAgain) && { load: (query) => earlierJob(core, query, job) }),
            careful: (query) => core.need(query, job.id),
            bytes: sizeInRow(input!),
          }),
        {
          endpointId: job.endpointId,
          full: async (error) => {
            const number = core.live.endpoints.get(job.endpointId)?.number ?? 0;
            const id = job.idempotencyKey === "" ? undefined : await core.db.onWriter((q) => keyHolder(q, number, job));
            if (id === undefined) throw error;
            return { id, created: false };
          },
        },
      ),

    cancel: (jobId) => core.ask(() => cancelJob(core, jobId), { load: (query) => core.need(query, jobId) }),
    retry: (jobId) =>
      core.ask((chunkCost: number) => retryJob(core, jobId, chunkCost), { load: (query) => core.need(query, jobId) }),
  };
}

async function keyHolder(query: Query, endpoint: number, job: NewJob): Promise<string | undefined> {
  const rows = await query<{ id: string }>("SELECT id FROM job_keys WHERE endpoint = $1 AND key = $2", [
    endpoint,
    job.idempotencyKey,
  ]);
  return rows[0]?.id;
}

async function earlierJob(core: PostgresCore, query: Query, job: NewJob): Promise<string | undefined> {
  if (job.isSentAgain) await core.need(query, job.id);
  if (job.idempotencyKey === "") return undefined;
  const number = core.live.endpoints.get(job.endpointId)?.number ?? 0;
  return number === 0 ? undefined : keyHolder(query, number, job);
}

/** `earlier`: the job that the rows have under its idempotency key. */
export function insertJob(core: PostgresCore, job: NewJob, input: Body, earlier: string | undefined): Enqueued {
  const { live } = core;
  core.check(job.endpointId);
  const endpoint = live.endpoint(job.endpointId);
  const number = core.number(endpoint);
  if (job.idempotencyKey !== "") {
    const changed = core.unit.keyHolder(number, job.idempotencyKey);
    const id = changed === undefined ? earlier : (changed ?? undefined);
    if (id !== undefined) return { id, created: false };
  }
  if (core.record(job.id) !== undefined) {
    if (job.isSentAgain) return { id: job.id, created: false };
    throw new SvcError("CONFLICT", `A job with the id ${job.id} exists already.`);
  }
  if (endpoint.inQueue + endpoint.delayed >= core.bounds.queuedMax) throw queueFull(endpoint);
  const now = core.clock();
  // Only when nothing waits before it: a job that came back in the same batch goes first.
  const claim = endpoint.inQueue === 0 ? core.claims.next(endpoint) : undefined;
  const record = newRecord(core, job, endpoint, input, now);
  core.made(record);
  if (job.idempotencyKey !== "") core.unit.holdKey(number, job.idempotencyKey, job.id);
  core.named(endpoint, input);
  if (claim === undefined) {
    core.queued(record);
    live.count(endpoint, IN_QUEUE, job.lowPriority, 1);
    core.touch(endpoint);
    return { id: job.id, created: true };
  }
  const fence = core.nextFence(0, record.seq);
  Object.assign(record, { state: IN_PROGRESS, fence, worker_id: claim.workerId, started_at: now });
  const running = live.start(record, fence, claim.workerId, now);
  core.claims.give(claim, running, typeof input === "string" ? job.input : input);
  const enqueued: { id: string; created: boolean; job?: Job } = { id: job.id, created: true };
  if (core.early.allows(job, endpoint)) {
    core.early.add(job.id, (ended) => {
      if (ended !== undefined) enqueued.job = ended;
    });
  }
  return enqueued;
}

function newRecord(core: PostgresCore, job: NewJob, endpoint: EndpointState, input: Body, now: number): JobRecord {
  return {
    seq: core.nextSeq(core.shard(endpoint)),
    id: job.id,
    endpoint: endpoint.number,
    state: IN_QUEUE,
    low_priority: job.lowPriority ? 1 : 0,
    fence: 0,
    retries: 0,
    attempts: 0,
    worker_id: "",
    created_at: now,
    started_at: null,
    finished_at: null,
    expires_at: now + job.ttlMs,
    due_at: null,
    ttl_ms: job.ttlMs,
    retention_ms: job.retentionMs,
    execution_timeout_ms: job.executionTimeoutMs,
    method: job.method,
    webhook: job.webhook,
    key: job.idempotencyKey,
    input,
    output: null,
    error: null,
    stored: "new",
    storedFence: 0,
    isGone: false,
  };
}

interface Final {
  readonly output: Body | null;
  readonly error: Body | null;
  readonly finishedAt: number;
}

/** The row of a job that is final now, its webhook owed. Part of a batch. */
export function endRow(
  core: PostgresCore,
  record: JobRecord,
  state: number,
  { output, error, finishedAt }: Final,
): void {
  const endpoint = core.live.of(record.endpoint);
  const keptMs = state === CANCELLED ? record.retention_ms : core.keptMs(state, record.retention_ms);
  Object.assign(record, {
    state,
    output,
    error,
    finished_at: finishedAt,
    expires_at: finishedAt + keptMs,
    due_at: null,
  });
  core.changed(record);
  if (record.webhook !== "") owedWebhook(core, record, endpoint);
}

/** False when the job is final already or unknown. */
function cancelJob(core: PostgresCore, jobId: string): boolean {
  const record = core.record(jobId);
  if (record === undefined || record.isGone || record.state > IN_PROGRESS) return false;
  core.checkNumber(record.endpoint);
  const endpoint = core.live.of(record.endpoint);
  const times = timesOf(record);
  const before = record.state;
  const finishedAt = core.clock();
  core.heads.remove(endpoint, record);
  const running = core.live.running.get(jobId);
  // What it said last stays: the statement keeps it.
  endRow(core, record, CANCELLED, { output: null, error: null, finishedAt });
  if (running !== undefined) {
    core.live.stopped(running, CANCELLED);
    core.cancelled({ jobId, fence: running.fence, workerId: running.workerId });
  } else {
    core.live.count(endpoint, before, record.low_priority === 1, -1);
  }
  const { webhook } = record;
  core.finished({ id: jobId, endpoint, state: CANCELLED, webhook, times, finishedAt, job: undefined });
  return true;
}

/** Fails a job that waits: it will find no worker. */
export function failQueuedJob(core: PostgresCore, record: JobRecord, workerId: string, error: Body): void {
  const endpoint = core.live.of(record.endpoint);
  const finishedAt = core.clock();
  core.heads.remove(endpoint, record);
  record.worker_id = workerId;
  endRow(core, record, FAILED, { output: null, error, finishedAt });
  core.named(endpoint, error);
  core.live.count(endpoint, IN_QUEUE, record.low_priority === 1, -1);
  core.live.count(endpoint, FAILED, false, 1);
  const { id, webhook } = record;
  core.finished({ id, endpoint, state: FAILED, webhook, times: timesOf(record), finishedAt, job: undefined });
}

/** FAILED or TIMED_OUT waits again, as if it had been submitted now. */
function retryJob(core: PostgresCore, jobId: string, chunkCost: number): boolean {
  const record = core.record(jobId);
  if (record === undefined || record.isGone || (record.state !== FAILED && record.state !== TIMED_OUT)) return false;
  core.checkNumber(record.endpoint);
  const endpoint = core.live.of(record.endpoint);
  const now = core.clock();
  const before = record.state;
  core.unnamed(endpoint, record.output, record.error);
  if (record.webhook !== "" && !core.unit.hooksIn.delete(record.seq)) core.unit.hooksOut.add(record.seq);
  const begun = { created_at: now, expires_at: now + record.ttl_ms, retries: 0, attempts: 0, worker_id: "" };
  const fresh = { started_at: null, finished_at: null, output: null, error: null };
  Object.assign(record, { state: IN_QUEUE, ...begun, ...fresh });
  core.changed(record);
  core.dropChunks(record.seq, jobId, endpoint, chunkCost);
  core.live.count(endpoint, before, false, -1);
  core.queued(record);
  core.live.count(endpoint, IN_QUEUE, record.low_priority === 1, 1);
  endpoint.retried++;
  core.touch(endpoint);
  return true;
}

function owedWebhook(core: PostgresCore, record: JobRecord, endpoint: EndpointState): void {
  const host = URL.parse(record.webhook)?.host ?? "";
  const { seq, id, webhook } = record;
  core.unit.hooksIn.set(seq, [core.nextSeq(core.shard(endpoint)), seq, id, webhook, host, 0, core.clock()]);
}
