/** What follows a failed attempt. */

import { DELAYED } from "../machine/job-row.ts";
import type { RunningJob } from "../machine/live-state.ts";
import type { Again } from "../queue.ts";
import type { QueueCore } from "./core.ts";

/** Milliseconds until the next attempt; undefined when there is none: all were made, or it would be past the job's ttl. */
export function waitBefore(core: QueueCore, job: RunningJob, again: Again): number | undefined {
  if (job.attempts >= again.max) return undefined;
  const waitMs = Math.round(Math.min(again.delayMs * again.backoff ** job.attempts, again.maxDelayMs));
  const expiry = core.sql.expiryOf.get(job.seq) as { at: number } | undefined;
  return expiry !== undefined && core.clock() + waitMs < expiry.at ? waitMs : undefined;
}

/** Part of a batch. */
export function delayJob(
  core: QueueCore,
  job: RunningJob,
  waitMs: number,
  { error, of }: { readonly error: string; readonly of: number },
): void {
  const dueAt = core.steady() + waitMs;
  core.sql.delay.run(dueAt, job.seq);
  core.live.stopped(job, DELAYED);
  core.unnamed(job.endpoint, job.outputFile);
  core.dropChunks(job.seq, job.id, job.endpoint);
  const { id, workerId, endpoint } = job;
  core.delayed({ id, endpointId: endpoint.id, workerId, attempt: job.attempts + 1, of, error, waitMs });
  core.delays.expect(dueAt);
}
