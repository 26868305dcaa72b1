/**
 * The changes of state of one job, each part of a batch: row, counts and running jobs change together, and what
 * others must hear is recorded for after the commit. State machine: src/domain/job.ts.
 */
import { JOB_LOSSES_MAX } from "../../domain/limits.ts";
import type { Job } from "../queue.ts";
import type { QueueCore } from "./core.ts";
import {
  CANCELLED,
  COMPLETED,
  type EndpointState,
  FAILED,
  IN_PROGRESS,
  IN_QUEUE,
  type RunningJob,
  TIMED_OUT,
} from "./live-state.ts";
import { jobOfRunning } from "./rows.ts";
import type { Body, JobRow } from "./statements.ts";

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
  core.sql.finish.run(state, output, error, now, now + keptMs(core, state, job.retentionMs), job.seq, job.fence);
  if (job.webhook !== "") owedWebhook(core, job.seq, job.webhook);
  core.live.stopped(job, state);
  core.named(job.endpoint, output, error);
  core.unnamed(job.endpoint, job.outputFile);
  const waited = whole !== undefined && (core.finals.has(job.id) || core.chunks.has(job.id));
  core.finished(job.id, job.endpoint, state, job.webhook, waited ? whole(now) : undefined);
}

/** Queues a running job again, as it was. Its old fence is of no use any more: the next claim gets a higher one. */
export function requeueJob(core: QueueCore, job: RunningJob, losses: number): void {
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
export function cancelJob(core: QueueCore, jobId: string): boolean {
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
    core.live.count(endpoint, IN_QUEUE, row.low_priority === 1, -1);
  }
  if (row.webhook !== "") owedWebhook(core, row.seq, row.webhook);
  core.finished(jobId, endpoint, CANCELLED, row.webhook);
  return true;
}

/** Fails a job that waits: it will find no worker. */
export function failQueuedJob(core: QueueCore, row: JobRow, workerId: string, error: Body): void {
  const endpoint = core.live.of(row.endpoint);
  const now = core.clock();
  core.sql.fail.run(workerId, error, now, now + keptMs(core, FAILED, row.retention_ms), row.seq);
  core.named(endpoint, error);
  if (row.webhook !== "") owedWebhook(core, row.seq, row.webhook);
  core.live.count(endpoint, IN_QUEUE, row.low_priority === 1, -1);
  core.live.count(endpoint, FAILED, false, 1);
  core.finished(row.id, endpoint, FAILED, row.webhook);
}

/** FAILED or TIMED_OUT waits again, as if it had been submitted now. */
export function retryJob(core: QueueCore, jobId: string): boolean {
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

/** Failed jobs are the dead letters: they outlast the retention of results. */
function keptMs(core: QueueCore, state: number, retentionMs: number): number {
  return state === COMPLETED ? retentionMs : Math.max(retentionMs, core.bounds.failedRetentionMs);
}

function owedWebhook(core: QueueCore, seq: number, url: string): void {
  core.sql.insertWebhook.run(seq, URL.parse(url)?.host ?? "", core.clock());
}

function addRetry(core: QueueCore, endpoint: EndpointState, n: number): void {
  core.sql.addTotals.run(0, 0, n, endpoint.number);
  endpoint.retried += n;
}
