/** How loaded endpoints are at a moment: those that have workers or work. All others are at rest. */
import { setImmediate } from "node:timers/promises";
import { HISTORY_ROWS_AT_ONCE } from "../domain/limits.ts";
import type { EndpointSample, WorkerView } from "../domain/worker.ts";
import type { JobReader } from "../queue/queue.ts";

/** Named as the series of them are. */
export interface Load {
  readonly waiting: number;
  readonly oldestWaitMs: number;
  readonly running: number;
  readonly workersReady: number;
  readonly workersStarting: number;
  readonly workersThrottled: number;
}

export interface LoadSamplerDeps {
  /** Endpoints that have workers or work. */
  readonly awake: () => Iterable<string>;
  readonly queue: Pick<JobReader, "counts">;
  readonly link: { sample(endpointId: string): EndpointSample; oldestWaitMs(endpointId: string): number };
  readonly workers: Pick<WorkerView, "counts">;
  /** Milliseconds since the epoch, as jobs have it. */
  readonly clock: () => number;
}

/** By endpoint. */
export async function sampleLoads(deps: LoadSamplerDeps): Promise<Map<string, Load>> {
  const loads = new Map<string, Load>();
  for (const id of [...deps.awake()]) {
    loads.set(id, await loadOf(deps, id));
    if (loads.size % HISTORY_ROWS_AT_ONCE === 0) await setImmediate();
  }
  return loads;
}

async function loadOf({ queue, link, workers, clock }: LoadSamplerDeps, id: string): Promise<Load> {
  const { inQueue, inProgress, oldestQueuedAt } = await queue.counts(id);
  const { waitingRequests, running } = link.sample(id);
  const { ready, initializing, throttled } = await workers.counts(id);
  const jobWaitMs = oldestQueuedAt === null ? 0 : Math.max(0, clock() - oldestQueuedAt);
  return {
    waiting: inQueue + waitingRequests,
    oldestWaitMs: Math.round(Math.max(jobWaitMs, link.oldestWaitMs(id))),
    running: Math.max(inProgress, running),
    workersReady: ready,
    workersStarting: initializing,
    workersThrottled: throttled,
  };
}
