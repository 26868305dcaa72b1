import type { Sample } from "./sample.ts";

/** What a job is assumed to take before the first has run. */
const UNKNOWN_EXEC_MS = 1_000;
/** Workers that are busier than this let the queue grow with every small burst. */
const UTILISATION_MAX = 0.75;
/** The same where low-priority jobs run among the others, which cannot push them aside. */
const UTILISATION_MIXED_MAX = 0.66;

/**
 * Workers so that no job waits longer than `scalerValue` seconds. Two needs, the larger wins: the backlog must have started
 * within that time; and where jobs are shorter than that, those that keep coming must find workers that are not busy all the
 * time. A job that has waited too long asks for one worker more than there are.
 */
export function queueDelay(sample: Sample): number {
  const queued = sample.queued + sample.waitingRequests;
  const low = sample.queuedLowPriority + sample.runningLowPriority;
  if (queued + sample.running + low === 0) return 0;
  const running = sample.running - sample.runningLowPriority;
  const delayMs = sample.scalerValue * 1_000;
  const turns = delayMs / (sample.averageExecMs ?? UNKNOWN_EXEC_MS);
  const held = running + Math.min(sample.runningLowPriority, running);
  const slots = Math.max(forBacklog(queued, held, turns), turns > 1 ? forLoad(sample, turns) : 0);
  const wanted = Math.max(1, Math.ceil(slots / sample.maxConcurrency));
  const late = sample.queued > 0 && sample.oldestWaitMs > delayMs;
  return late ? Math.max(wanted, currentWorkers(sample) + 1) : wanted;
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

/**
 * The average load with room for bursts; very short jobs wait for each other unnoticed and need no such room. Low-priority
 * jobs ask for nothing, but the slots they hold are no help to the others: so many are made up for, at most as many as
 * the others keep busy.
 */
function forLoad(sample: Sample, turns: number): number {
  const low = Math.min(sample.averageLowPriority, sample.averageLoad);
  const load = sample.averageLoad + low;
  if (turns > MANY_TURNS) return load / turns;
  const need = load / (low > 0 ? UTILISATION_MIXED_MAX : UTILISATION_MAX);
  // A worker that is only just too many stays: the next small burst would start it again.
  const current = currentWorkers(sample) * sample.maxConcurrency;
  return Math.max(need, Math.min(current, need + sample.maxConcurrency / 2));
}

function currentWorkers(sample: Sample): number {
  return sample.workers.filter((worker) => worker.current).length;
}

/** One worker for each `scalerValue` requests that wait or run. */
export function requestCount(sample: Sample): number {
  const requests = sample.queued + sample.waitingRequests + sample.running - sample.runningLowPriority;
  if (requests === 0) return sample.queuedLowPriority + sample.runningLowPriority > 0 ? 1 : 0;
  return Math.ceil(requests / sample.scalerValue);
}
