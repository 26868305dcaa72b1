/**
 * sample → what to start and what to stop. Pure. Up at once; down only workers that have been idle for the idle
 * time-out, or are idle at all when there are more than workersMax; never a busy one. Workers of an earlier revision
 * stay until a current one is ready.
 */
import type { Decision, Sample, SampledWorker } from "./sample.ts";
import { queueDelay } from "./scalers/queue-delay.ts";
import { requestCount } from "./scalers/request-count.ts";

export function decide(sample: Sample): Decision {
  const wanted = sample.scalerType === "QUEUE_DELAY" ? queueDelay(sample) : requestCount(sample);
  const current = sample.workers.filter((worker) => worker.current);
  const stale = sample.workers.filter((worker) => !worker.current);
  const proof = sample.mustProve || stale.length > 0 ? 1 : 0;
  const floor = Math.max(sample.workersMin, sample.workersMax > 0 ? proof : 0);
  const desired = Math.min(sample.workersMax, Math.max(wanted, floor));

  const stop: SampledWorker[] = [];
  if (sample.workersMax === 0) stop.push(...sample.workers);
  else if (current.some((worker) => worker.ready)) stop.push(...stale);
  const surplus = current.length - desired;
  if (surplus > 0 && sample.workersMax > 0) {
    const tooMany = current.length - sample.workersMax;
    const idle = current.filter((worker) => !worker.busy).sort((a, b) => b.idleMs - a.idleMs);
    stop.push(...idle.slice(0, surplus).filter((w, index) => index < tooMany || w.idleMs >= sample.idleTimeoutMs));
  }
  const start = Math.max(0, desired - current.length);
  return { start, stop: stop.map((worker) => worker.id), reason: why(sample, wanted, desired, start, stop.length) };
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
