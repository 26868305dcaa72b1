import type { Sample } from "../sample.ts";

/** One worker for each `scalerValue` requests that wait or run. */
export function requestCount(sample: Sample): number {
  const requests = sample.queued + sample.waitingRequests + sample.running - sample.runningLowPriority;
  if (requests === 0) return sample.queuedLowPriority + sample.runningLowPriority > 0 ? 1 : 0;
  return Math.ceil(requests / sample.scalerValue);
}
