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
  FAILED,
  IN_PROGRESS,
  IN_QUEUE,
  type JobRow,
  TIMED_OUT,
  timesOf,
} from "../machine/job-row.ts";
import { type EndpointState, jobOfRunning, type PendingClaim, type RunningJob } from "../machine/live-state.ts";
import { queueFull } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { Claim, ClaimedJob, Job, NewJob, Queue } from "../queue.ts";
import { delayJob, waitBefore } from "./attempts.ts";
import type { QueueCore } from "./core.ts";

const FIRST_FENCE = 1;
const INPUT_LOST = "the file with the job's input is missing or damaged";
const FINAL_STATES = { COMPLETED, FAILED, TIMED_OUT } as const;

type Changes = Omit<Queue, "purge" | "cancel"> & { cancel(jobId: string): Promise<boolean> };

export function queueChanges(core: QueueCore, bodies: StoredBodies): Changes {
  core.claims.inputLost = (job) => core.keep(() => finishJob(core, job, FAILED, null, Buffer.from(INPUT_LOST)));
  return {
    enqueue: (job) =>
      core.offer(() =>
        bodies.store(job.id, [job.input], ([input]) => core.run(() => insertJob(core, job, input!)), {
          endpointId: job.endpointId,
          full: async (error) => {
            const id = earlierJobOr(core, job, core.live.endpoints.get(job.endpointId)?.number ?? 0, () => error);
            return { id, created: false };
          },
        }),
      ),

    claim(endpointId, workerId, count, signal) {
      if (signal.aborted || count < 1) return Promise.resolve([]);
      return new Promise<ClaimedJob[]>((resolve, reject) => {
        const endpoint = core.live.endpoint(endpointId);
        const claim: PendingClaim = { endpoint, workerId, signal, room: count, bytes: 0, given: [], resolve, reject };
        core.claims.add(claim);
        if (endpoint.inQueue > 0) {
          core.keep(() => core.touch(endpoint)).catch((error) => core.claims.refuse(claim, error));
        }
      });
    },

    renew: async (claims) => claims.filter((claim) => !renewClaim(core, claim)),

    finish(claim, outcome) {
      const job = held(core, claim);
      if (job === undefined) return Promise.resolve(false);
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

    cancel: (jobId) => core.offer(() => core.run(() => cancelJob(core, jobId))),
    retry: (jobId) => core.offer(() => core.run(() => retryJob(core, jobId))),
  };
}

interface End {
  readonly state: number;
  readonly output: Uint8Array | null;
  readonly error: string;
}

function finishClaimed(core: QueueCore, claim: Claim, end: End, output: Body | null, error: Body | null) {
  return core.run(() => {
    const job = held(core, claim);
    if (job === undefined) return false;
    finishJob(core, job, end.state, output, error, (finishedAt) =>
      jobOfRunning(job, end.output, { state: end.state, error: end.error, finishedAt }),
    );
    return true;
  });
}

/** The running job a claim still holds; undefined when its fence is stale. */
export function held(core: QueueCore, claim: Claim): RunningJob | undefined {
  const job = core.live.running.get(claim.jobId);
  return job?.fence === claim.fence ? job : undefined;
}

export function insertJob(core: QueueCore, job: NewJob, input: Body): { id: string; created: boolean } {
  const { live } = core;
  const endpoint = live.endpoint(job.endpointId);
  core.number(endpoint);
  if (endpoint.inQueue + endpoint.delayed >= core.bounds.queuedMax) {
    return { id: earlierJobOr(core, job, endpoint.number, () => queueFull(endpoint)), created: false };
  }
  const now = core.clock();
  // Only when nothing waits before it: a job that came back in the same batch goes first.
  const claim = endpoint.inQueue === 0 ? core.claims.next(endpoint) : undefined;
  const seq = core.nextSeq();
  try {
    core.sql.insert.run(
      seq,
      job.id,
      endpoint.number,
      claim === undefined ? IN_QUEUE : IN_PROGRESS,
      job.lowPriority ? 1 : 0,
      claim === undefined ? 0 : FIRST_FENCE,
      claim?.workerId ?? "",
      now,
      claim === undefined ? null : now,
      now + job.ttlMs,
      job.ttlMs,
      job.retentionMs,
      job.executionTimeoutMs,
      job.method,
      job.webhook,
      job.idempotencyKey === "" ? null : job.idempotencyKey,
      input,
    );
  } catch (error) {
    return { id: earlierJob(core, job, endpoint, error), created: false };
  }
  core.named(endpoint, input);
  if (claim === undefined) {
    live.count(endpoint, IN_QUEUE, job.lowPriority, 1);
    core.touch(endpoint);
    return { id: job.id, created: true };
  }
  const running: RunningJob = {
    seq,
    id: job.id,
    endpoint,
    fence: FIRST_FENCE,
    workerId: claim.workerId,
    lowPriority: job.lowPriority,
    retries: 0,
    attempts: 0,
    createdAt: now,
    startedAt: now,
    retentionMs: job.retentionMs,
    executionTimeoutMs: job.executionTimeoutMs,
    method: job.method,
    webhook: job.webhook,
    leaseUntil: live.lease(),
    chunkBytes: 0,
    outputFile: null,
  };
  live.started(running);
  core.claims.give(claim, running, typeof input === "string" ? job.input : input);
  return { id: job.id, created: true };
}

/** The job that holds the idempotency key; throws `refusal` when there is none. */
function earlierJobOr(core: QueueCore, job: NewJob, endpoint: number, refusal: () => SvcError): string {
  const earlier = core.sql.byIdempotencyKey.get(endpoint, job.idempotencyKey || null);
  if (earlier !== undefined) return earlier.id as string;
  throw refusal();
}

/** The job that holds the idempotency key which broke the insert; throws `error` when the cause was another. */
function earlierJob(core: QueueCore, job: NewJob, endpoint: EndpointState, error: unknown): string {
  if (job.idempotencyKey !== "") {
    const earlier = core.sql.byIdempotencyKey.get(endpoint.number, job.idempotencyKey) as { id: string } | undefined;
    if (earlier !== undefined) return earlier.id;
  }
  if (core.sql.seqOf.get(job.id) === undefined) throw error;
  throw new SvcError("CONFLICT", `A job with the id ${job.id} exists already.`, { cause: error });
}

function renewClaim(core: QueueCore, claim: Claim): boolean {
  const job = held(core, claim);
  if (job === undefined) return false;
  job.leaseUntil = core.live.lease();
  return true;
}

/** Finishes a running job. `whole` is the job for those who wait, when its bodies are at hand. */
export function finishJob(
  core: QueueCore,
  job: RunningJob,
  state: number,
  output: Body | null,
  error: Body | null,
  whole?: (finishedAt: number) => Job,
): void {
  const now = core.clock();
  core.sql.finish.run(state, output, error, now, now + core.keptMs(state, job.retentionMs), job.seq, job.fence);
  if (job.webhook !== "") owedWebhook(core, job.seq, job.webhook);
  core.live.stopped(job, state);
  core.named(job.endpoint, output, error);
  core.unnamed(job.endpoint, job.outputFile);
  const waited = whole !== undefined && (core.finals.has(job.id) || core.chunks.has(job.id));
  const { id, endpoint, webhook } = job;
  core.finished({ id, endpoint, state, webhook, times: job, finishedAt: now, job: waited ? whole(now) : undefined });
}

/** Queues a running job again, as it was. Its old fence is of no use any more: the next claim gets a higher one. */
function requeueJob(core: QueueCore, job: RunningJob, losses: number): void {
  // A job that was lost keeps its worker's name until the next one takes it.
  core.sql.requeue.run(losses > 0 ? job.workerId : "", job.retries + losses, job.seq);
  core.live.stopped(job, IN_QUEUE);
  core.unnamed(job.endpoint, job.outputFile);
  core.dropChunks(job.seq, job.id, job.endpoint);
  core.touch(job.endpoint);
}

/** The worker is gone: once more the first time, FAILED after that. */
export function loseJob(core: QueueCore, job: RunningJob, cause = ""): void {
  if (job.retries >= JOB_LOSSES_MAX) {
    const error = `worker lost after ${JOB_LOSSES_MAX} retry${cause === "" ? "" : `: ${cause}`}`;
    finishJob(core, job, FAILED, null, Buffer.from(error), (finishedAt) =>
      jobOfRunning(job, null, { state: FAILED, error, finishedAt }),
    );
    return;
  }
  requeueJob(core, job, 1);
  addRetry(core, job.endpoint, 1);
}

/** False when the job is final already or unknown. */
function cancelJob(core: QueueCore, jobId: string): boolean {
  const row = core.sql.meta.get(jobId) as unknown as JobRow | undefined;
  if (row === undefined || row.state > IN_PROGRESS) return false;
  const endpoint = core.live.of(row.endpoint);
  const now = core.clock();
  core.sql.cancel.run(now, now + row.retention_ms, row.seq);
  const running = core.live.running.get(jobId);
  if (running !== undefined) {
    core.live.stopped(running, CANCELLED);
    core.cancelled({ jobId, fence: running.fence, workerId: running.workerId });
  } else {
    core.live.count(endpoint, row.state, row.low_priority === 1, -1);
  }
  if (row.webhook !== "") owedWebhook(core, row.seq, row.webhook);
  const times = timesOf(row);
  core.finished({
    id: jobId,
    endpoint,
    state: CANCELLED,
    webhook: row.webhook,
    times,
    finishedAt: now,
    job: undefined,
  });
  return true;
}

/** Fails a job that waits: it will find no worker. */
export function failQueuedJob(core: QueueCore, row: JobRow, workerId: string, error: Body): void {
  const endpoint = core.live.of(row.endpoint);
  const now = core.clock();
  core.sql.fail.run(workerId, error, now, now + core.keptMs(FAILED, row.retention_ms), row.seq);
  core.named(endpoint, error);
  if (row.webhook !== "") owedWebhook(core, row.seq, row.webhook);
  core.live.count(endpoint, IN_QUEUE, row.low_priority === 1, -1);
  core.live.count(endpoint, FAILED, false, 1);
  const { id, webhook } = row;
  const times = { ...timesOf(row), workerId };
  core.finished({ id, endpoint, state: FAILED, webhook, times, finishedAt: now, job: undefined });
}

/** FAILED or TIMED_OUT waits again, as if it had been submitted now. */
function retryJob(core: QueueCore, jobId: string): boolean {
  const row = core.sql.meta.get(jobId) as unknown as JobRow | undefined;
  if (row === undefined || (row.state !== FAILED && row.state !== TIMED_OUT)) return false;
  const endpoint = core.live.of(row.endpoint);
  const now = core.clock();
  const { output, error } = core.sql.resultBodies.get(row.seq) as { output: Body | null; error: Body | null };
  core.sql.retry.run(now, now, row.seq);
  if (row.webhook !== "") core.sql.dropWebhook.run(row.seq);
  core.unnamed(endpoint, output, error);
  core.dropChunks(row.seq, jobId, endpoint);
  core.live.count(endpoint, row.state, false, -1);
  core.live.count(endpoint, IN_QUEUE, row.low_priority === 1, 1);
  addRetry(core, endpoint, 1);
  core.touch(endpoint);
  return true;
}

function owedWebhook(core: QueueCore, seq: number, url: string): void {
  core.sql.insertWebhook.run(seq, URL.parse(url)?.host ?? "", core.clock());
}

function addRetry(core: QueueCore, endpoint: EndpointState, n: number): void {
  core.sql.addTotals.run(0, 0, n, endpoint.number);
  endpoint.retried += n;
}
