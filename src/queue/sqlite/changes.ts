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
  type JobRow,
  TIMED_OUT,
  timesOf,
} from "../machine/job-row.ts";
import type { EndpointState, RunningJob } from "../machine/live-state.ts";
import { queueFull } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { NewJob, Queue } from "../queue.ts";
import type { QueueCore } from "./core.ts";

const FIRST_FENCE = 1;
type Changes = Pick<Queue, "enqueue" | "retry"> & { cancel(jobId: string): Promise<boolean> };

export function queueChanges(core: QueueCore, bodies: StoredBodies): Changes {
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

    cancel: (jobId) => core.offer(() => core.run(() => cancelJob(core, jobId))),
    retry: (jobId) => core.offer(() => core.run(() => retryJob(core, jobId))),
  };
}

export function insertJob(core: QueueCore, job: NewJob, input: Body): Awaited<ReturnType<Queue["enqueue"]>> {
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
    return { id: job.id, created: true, ...(typeof input === "string" && { letGo: true }) };
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
    givenAt: Number.NEGATIVE_INFINITY,
    chunkBytes: 0,
    outputFile: null,
  };
  live.started(running);
  if (typeof input === "string") core.claims.give(claim, running, job.input, job.isInputOwn);
  else core.claims.give(claim, running, input);
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
  if (row.webhook !== "") core.owedWebhook(row.seq, row.webhook);
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
  if (row.webhook !== "") core.owedWebhook(row.seq, row.webhook);
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
  core.addRetry(endpoint);
  core.touch(endpoint);
  return true;
}
