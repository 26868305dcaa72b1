import type { Sample } from "../sample.ts";

/** What a job is assumed to take before the first has run. */
const UNKNOWN_EXEC_MS = 1_000;
/** Workers that are busier than this let the queue grow with every small burst. */
const UTILISATION_MAX = 0.73;

/**
 * Workers so that no job waits longer than `scalerValue` seconds. Two needs, the larger wins: the backlog must have started
 * within that time; and where jobs are shorter than that, those that keep coming must find workers that are not busy all the
 * time. A job that has waited too long asks for one worker more than there are.
 */
export function queueDelay(sample: Sample): number {
  const queued = sample.queued + sample.waitingRequests;
  if (queued + sample.running === 0) return sample.queuedLowPriority > 0 ? 1 : 0;
  const delayMs = sample.scalerValue * 1_000;
  const turns = delayMs / (sample.averageExecMs ?? UNKNOWN_EXEC_MS);
  const slots = Math.max(forBacklog(queued, sample.running, turns), turns > 1 ? forLoad(sample, turns) : 0);
  const wanted = Math.max(1, Math.ceil(slots / sample.maxConcurrency));
  const active = sample.workers.filter((worker) => worker.current).length;
  const late = sample.queued > 0 && sample.oldestWaitMs > delayMs;
  return late ? Math.max(wanted, active + 1) : wanted;
}

/**
 * `turns` is how many jobs, one after the other, fit into the delay. A slot that is taken can start so many in time, one that
 * is free one more. Where many fit, what runs now is over in a moment and counts like what waits.
 */
function forBacklog(queued: number, running: number, turns: number): number {
  if (turns > MANY_TURNS) return (queued + running) / turns;
  const whole = Math.floor(turns);
  return running + Math.ceil(Math.max(0, queued - running * whole) / (whole + 1));
}

const MANY_TURNS = 20;

/** The average load with room for bursts; very short jobs wait for each other unnoticed and need no such room. */
function forLoad(sample: Sample, turns: number): number {
  return turns > MANY_TURNS ? sample.averageLoad / turns : sample.averageLoad / UTILISATION_MAX;
}
