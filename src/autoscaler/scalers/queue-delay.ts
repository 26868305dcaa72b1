import type { Sample } from "../sample.ts";

/** What a job is assumed to take before the first has run. */
const UNKNOWN_EXEC_MS = 1_000;

/**
 * Workers so that no job waits longer than `scalerValue` seconds: all the work there is, spread so that it is done in
 * that time. A job that has waited longer already asks for one more worker than there are.
 */
export function queueDelay(sample: Sample): number {
  const work = sample.queued + sample.waitingRequests + sample.running;
  if (work === 0) return sample.queuedLowPriority > 0 ? 1 : 0;
  const delayMs = sample.scalerValue * 1_000;
  const execMs = sample.averageExecMs ?? UNKNOWN_EXEC_MS;
  const predicted = Math.max(1, Math.ceil((work * execMs) / (delayMs * sample.maxConcurrency)));
  const active = sample.workers.filter((worker) => worker.current).length;
  const late = sample.queued > 0 && sample.oldestWaitMs > delayMs;
  return late ? Math.max(predicted, active + 1) : predicted;
}
