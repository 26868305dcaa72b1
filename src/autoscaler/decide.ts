/**
 * sample → what to start and what to stop. Pure. Up at once; down only workers that have been idle for the idle
 * time-out, or are idle at all when there are more than workersMax; a busy one beyond workersMax finishes its work first. Workers of an earlier revision
 * stay until a current one is ready, unless the endpoint switches at once.
 */
import type { Decision } from "../domain/worker.ts";
import type { Sample, SampledWorker } from "./sample.ts";
import { queueDelay, requestCount } from "./scalers.ts";

export function decide(sample: Sample): Decision {
  const wanted = sample.scalerType === "QUEUE_DELAY" ? queueDelay(sample) : requestCount(sample);
  const current = sample.workers.filter((worker) => worker.current);
  const stale = sample.workers.filter((worker) => !worker.current);
  const proof = sample.mustProve || (stale.length > 0 && !sample.switchesAtOnce) ? 1 : 0;
  const floor = Math.max(sample.workersMin, sample.workersMax > 0 ? proof : 0);
  const desired = Math.min(sample.workersMax, Math.max(wanted, floor));

  const stop: SampledWorker[] = [];
  if (sample.workersMax === 0) stop.push(...sample.workers);
  else if (sample.switchesAtOnce || current.some((worker) => worker.ready)) stop.push(...stale);
  const surplus = current.length - desired;
  const tooMany = current.length - sample.workersMax;
  const drain: SampledWorker[] = [];
  if (surplus > 0 && sample.workersMax > 0) {
    const idle = current.filter((worker) => !worker.busy).sort((a, b) => b.idleMs - a.idleMs);
    stop.push(...idle.slice(0, surplus).filter((w, index) => index < tooMany || w.idleMs >= sample.idleTimeoutMs));
    drain.push(...current.filter((worker) => worker.busy).slice(0, Math.max(0, tooMany - idle.length)));
  }
  const start = Math.max(0, desired - current.length);
  const waiting = sample.queued + sample.waitingRequests + (wanted > 0 && current.length === 0 ? 1 : 0);
  return {
    start,
    desired,
    urgent: start > 0 && (waiting > 0 || current.length < floor),
    stop: ids(stop),
    drain: ids(drain),
    reason: why(sample, wanted, desired, start, stop.length + drain.length),
  };
}

function ids(workers: readonly SampledWorker[]): string[] {
  return workers.map((worker) => worker.id);
}

function why(sample: Sample, wanted: number, desired: number, start: number, stops: number): string {
  if (start > 0) {
    if (wanted === 0)
      return sample.workersMin > 0 ? `workersMin is ${sample.workersMin}` : "a new revision must show that it starts";
    const work = sample.queued + sample.waitingRequests;
    return `${work} waiting, ${sample.running} running: ${sample.scalerType} wants ${wanted}, allowed ${desired}`;
  }
  if (stops === 0) return "";
  if (sample.workersMax === 0) return "workersMax is 0";
  if (sample.workers.some((worker) => !worker.current)) return "replaced by a new revision";
  return sample.workers.length > sample.workersMax
    ? `workersMax is ${sample.workersMax}`
    : `idle for ${sample.idleTimeoutMs / 1000} s`;
}
