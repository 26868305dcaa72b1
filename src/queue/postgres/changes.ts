/**
 * A job's way through the queue: every change of its state, each part of a batch. Row, counts and running jobs change together, and
 * what others must hear is recorded for after the commit. State machine: src/domain/job.ts. A job that finds a waiting claim is
 * inserted as IN_PROGRESS: one write.
 */
import { SvcError } from "../../domain/errors.ts";
import { JOB_LOSSES_MAX } from "../../domain/limits.ts";
import {
  type Body,
  CANCELLED,
  COMPLETED,
  DELAYED,
  FAILED,
  IN_PROGRESS,
  IN_QUEUE,
  TIMED_OUT,
  timesOf,
} from "../machine/job-row.ts";
import { type EndpointState, jobOfRunning, type PendingClaim, type RunningJob } from "../machine/live-state.ts";
import { queueFull } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { Again, Claim, ClaimedJob, Job, NewJob, Queue } from "../queue.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import type { JobRecord } from "./records.ts";

const INPUT_LOST = "the job's input is missing or damaged";
const FINAL_STATES = { COMPLETED, FAILED, TIMED_OUT } as const;

type Changes = Omit<Queue, "purge" | "cancel"> & { cancel(jobId: string): Promise<boolean> };

export function queueChanges(core: PostgresCore, bodies: StoredBodies): Changes {
  core.claims.inputLost = (job) => core.keep(() => finishJob(core, job, FAILED, null, Buffer.from(INPUT_LOST)));
  return {
    enqueue: (job) =>
      bodies.store(
        job.id,
        [job.input],
        ([input]) =>
          core.ask((earlier: string | undefined) => insertJob(core, job, input!, earlier), {
            ...(job.idempotencyKey !== "" && { load: (query) => earlierJob(core, query, job) }),
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

    claim(endpointId, workerId, count, signal) {
      if (signal.aborted || count < 1) return Promise.resolve([]);
      return new Promise<ClaimedJob[]>((resolve, reject) => {
        const endpoint = core.live.endpoint(endpointId);
        const claim: PendingClaim = { endpoint, workerId, signal, room: count, bytes: 0, given: [], resolve, reject };
        core.claims.add(claim);
        if (endpoint.inQueue > 0) core.feed(endpoint).catch((error) => core.claims.refuse(claim, error));
      });
    },

    renew: async (claims) => claims.filter((claim) => !renewClaim(core, claim)),

    finish(claim, outcome) {
      const job = held(core, claim);
      // Who took it may yet be found not to have been able to.
      if (job === undefined) return core.pipeline.isWriting ? core.run(() => false) : Promise.resolve(false);
      if (outcome.state === "FAILED" && outcome.again !== undefined) {
        const failed = { error: outcome.error, of: outcome.again.max + 1 };
        const waitMs = waitBefore(core, job, outcome.again);
        if (waitMs !== undefined) {
          return bodies.keep(claim.jobId, [], () =>
            core.run(() => {
              const still = held(core, claim);
              if (still !== undefined) delayJob(core, still, waitMs, failed);
              return still !== undefined;
            }),
          );
        }
      }
      const output = outcome.state === "TIMED_OUT" ? null : (outcome.output ?? null);
      const error = outcome.state === "COMPLETED" ? "" : outcome.error;
      const end: End = { state: FINAL_STATES[outcome.state], output, error };
      const errorBytes = error === "" ? null : Buffer.from(error);
      return bodies.keep(
        claim.jobId,
        [output, errorBytes],
        ([storedOutput, storedError]) => finishClaimed(core, claim, end, storedOutput!, storedError!),
        {
          endpointId: job.endpoint.id,
          full: ({ message }) => {
            const text = `the job's result cannot be kept. ${message}`;
            return finishClaimed(core, claim, { state: FAILED, output: null, error: text }, null, Buffer.from(text));
          },
        },
      );
    },

    release: (claim, reason, cause) =>
      bodies.keep(claim.jobId, [], () =>
        core.run(() => {
          const job = held(core, claim);
          if (job === undefined) return;
          if (reason === "lost") loseJob(core, job, cause);
          else requeueJob(core, job, 0);
        }),
      ),

    cancel: (jobId) => core.ask(() => cancelJob(core, jobId), { load: (query) => core.need(query, jobId) }),
    retry: (jobId) =>
      core.ask((chunkCost: number) => retryJob(core, jobId, chunkCost), { load: (query) => core.need(query, jobId) }),
  };
}

interface End {
  readonly state: number;
  readonly output: Uint8Array | null;
  readonly error: string;
}

function finishClaimed(core: PostgresCore, claim: Claim, end: End, output: Body | null, error: Body | null) {
  const work = () => {
    const job = held(core, claim);
    if (job === undefined) return false;
    finishJob(core, job, end.state, output, error, (finishedAt) =>
      jobOfRunning(job, end.output, { state: end.state, error: end.error, finishedAt }),
    );
    return true;
  };
  return core.run(work, { bytes: sizeInRow(output) + sizeInRow(error) });
}

function sizeInRow(body: Body | null): number {
  return typeof body === "object" && body !== null ? body.byteLength : 0;
}

/** The running job a claim still holds; undefined when its fence is stale. */
export function held(core: PostgresCore, claim: Claim): RunningJob | undefined {
  const job = core.live.running.get(claim.jobId);
  return job?.fence === claim.fence ? job : undefined;
}

async function keyHolder(query: Query, endpoint: number, job: NewJob): Promise<string | undefined> {
  const rows = await query<{ id: string }>("SELECT id FROM job_keys WHERE endpoint = $1 AND key = $2", [
    endpoint,
    job.idempotencyKey,
  ]);
  return rows[0]?.id;
}

async function earlierJob(core: PostgresCore, query: Query, job: NewJob): Promise<string | undefined> {
  const number = core.live.endpoints.get(job.endpointId)?.number ?? 0;
  return number === 0 ? undefined : keyHolder(query, number, job);
}

/** `earlier`: the job that the rows have under its idempotency key. */
export function insertJob(core: PostgresCore, job: NewJob, input: Body, earlier: string | undefined) {
  const { live } = core;
  const endpoint = live.endpoint(job.endpointId);
  const number = core.number(endpoint);
  if (job.idempotencyKey !== "") {
    const changed = core.unit.keyHolder(number, job.idempotencyKey);
    const id = changed === undefined ? earlier : (changed ?? undefined);
    if (id !== undefined) return { id, created: false };
  }
  if (core.record(job.id) !== undefined) {
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
  const fence = core.ownership.nextFence(0);
  Object.assign(record, { state: IN_PROGRESS, fence, worker_id: claim.workerId, started_at: now });
  const running = live.start(record, fence, claim.workerId, now);
  core.claims.give(claim, running, typeof input === "string" ? job.input : input);
  return { id: job.id, created: true };
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

function renewClaim(core: PostgresCore, claim: Claim): boolean {
  const job = held(core, claim);
  if (job === undefined) return false;
  job.leaseUntil = core.live.lease();
  return true;
}

/** Finishes a running job. `whole` is the job for those who wait, when its bodies are at hand. */
export function finishJob(
  core: PostgresCore,
  job: RunningJob,
  state: number,
  output: Body | null,
  error: Body | null,
  whole?: (finishedAt: number) => Job,
): void {
  const finishedAt = core.clock();
  end(core, core.record(job.id)!, state, { output, error, finishedAt });
  core.live.stopped(job, state);
  core.unnamed(job.endpoint, job.outputFile);
  const waited = whole !== undefined && (core.finals.has(job.id) || core.chunks.has(job.id));
  const { id, endpoint, webhook } = job;
  core.finished({ id, endpoint, state, webhook, times: job, finishedAt, job: waited ? whole(finishedAt) : undefined });
}

interface Final {
  readonly output: Body | null;
  readonly error: Body | null;
  readonly finishedAt: number;
}

/** The row of a job that is final now. */
function end(core: PostgresCore, record: JobRecord, state: number, { output, error, finishedAt }: Final): void {
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
  core.named(endpoint, output, error);
  if (record.webhook !== "") owedWebhook(core, record, endpoint);
}

/** Queues a running job again, as it was. Its old fence is of no use any more: the next claim gets a higher one. */
function requeueJob(core: PostgresCore, job: RunningJob, losses: number): void {
  const record = core.record(job.id)!;
  // A job that was lost keeps its worker's name until the next one takes it.
  const worker_id = losses > 0 ? job.workerId : "";
  Object.assign(record, { state: IN_QUEUE, worker_id, retries: job.retries + losses, started_at: null });
  leaveWorker(core, record, job);
  core.queued(record);
  core.live.stopped(job, IN_QUEUE);
  core.touch(job.endpoint);
}

/** What a job said in a run that is over goes. */
function leaveWorker(core: PostgresCore, record: JobRecord, job: RunningJob): void {
  record.output = null;
  core.changed(record);
  core.unnamed(job.endpoint, job.outputFile);
  core.dropChunks(job.seq, job.id, job.endpoint, job.chunkBytes);
}

/** The worker is gone: once more the first time, FAILED after that. */
export function loseJob(core: PostgresCore, job: RunningJob, cause = ""): void {
  if (job.retries >= JOB_LOSSES_MAX) {
    const error = `worker lost after ${JOB_LOSSES_MAX} retry${cause === "" ? "" : `: ${cause}`}`;
    finishJob(core, job, FAILED, null, Buffer.from(error), (finishedAt) =>
      jobOfRunning(job, null, { state: FAILED, error, finishedAt }),
    );
    return;
  }
  requeueJob(core, job, 1);
  job.endpoint.retried++;
}

/** Milliseconds until the next attempt; undefined when there is none: all were made, or it would be past the job's ttl. */
function waitBefore(core: PostgresCore, job: RunningJob, again: Again): number | undefined {
  if (job.attempts >= again.max) return undefined;
  const waitMs = Math.round(Math.min(again.delayMs * again.backoff ** job.attempts, again.maxDelayMs));
  const record = core.record(job.id);
  return record !== undefined && core.clock() + waitMs < record.expires_at ? waitMs : undefined;
}

function delayJob(
  core: PostgresCore,
  job: RunningJob,
  waitMs: number,
  { error, of }: { readonly error: string; readonly of: number },
): void {
  const dueAt = core.steady() + waitMs;
  const record = core.record(job.id)!;
  const attempts = record.attempts + 1;
  Object.assign(record, { state: DELAYED, due_at: dueAt, attempts, worker_id: "", started_at: null });
  leaveWorker(core, record, job);
  core.live.stopped(job, DELAYED);
  const { id, workerId, endpoint } = job;
  core.delayed({ id, endpointId: endpoint.id, workerId, attempt: job.attempts + 1, of, error, waitMs });
  core.expectDue(dueAt);
}

/** False when the job is final already or unknown. */
function cancelJob(core: PostgresCore, jobId: string): boolean {
  const record = core.record(jobId);
  if (record === undefined || record.isGone || record.state > IN_PROGRESS) return false;
  const endpoint = core.live.of(record.endpoint);
  const times = timesOf(record);
  const before = record.state;
  const finishedAt = core.clock();
  core.heads.remove(endpoint, record);
  const running = core.live.running.get(jobId);
  // What it said last stays: the statement keeps it.
  end(core, record, CANCELLED, { output: null, error: null, finishedAt });
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
  end(core, record, FAILED, { output: null, error, finishedAt });
  core.live.count(endpoint, IN_QUEUE, record.low_priority === 1, -1);
  core.live.count(endpoint, FAILED, false, 1);
  const { id, webhook } = record;
  core.finished({ id, endpoint, state: FAILED, webhook, times: timesOf(record), finishedAt, job: undefined });
}

/** FAILED or TIMED_OUT waits again, as if it had been submitted now. */
function retryJob(core: PostgresCore, jobId: string, chunkCost: number): boolean {
  const record = core.record(jobId);
  if (record === undefined || record.isGone || (record.state !== FAILED && record.state !== TIMED_OUT)) return false;
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
