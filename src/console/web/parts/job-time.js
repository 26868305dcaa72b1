/** The split of one job's time, as the platform tells it in Server-Timing. */
import { ask } from "../platform.js";

/** {job, parts}: the job as it is now, or as it ended within `waitMs`, and the milliseconds of each part. */
export async function askJob(endpointId, jobId, waitMs, signal) {
  const path = `/v2/${encodeURIComponent(endpointId)}/status-sync/${encodeURIComponent(jobId)}?wait=${waitMs}`;
  const response = await ask(path, { signal });
  return { job: await response.json(), parts: partsOf(response.headers.get("server-timing") ?? "") };
}

/** The platform counts a worker's start as waiting too; here each time counts once. */
export function partsOf(header) {
  const ms = Object.fromEntries(
    [...header.matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, time]) => [name, Number(time)]),
  );
  const { queue = 0, boot = 0, import: imported = 0, exec } = ms;
  const started = boot + imported > 0;
  return {
    wait: Math.max(0, queue - boot - imported),
    boot: started ? boot : null,
    import: started ? imported : null,
    run: exec ?? null,
  };
}

const FINAL = new Set(["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"]);

export function isFinal({ status }) {
  return FINAL.has(status);
}
