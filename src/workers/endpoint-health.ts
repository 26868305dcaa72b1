import { type EndpointHealth, isActive, isInitializing, type WorkerCounts } from "../domain/worker.ts";
import type { Endpoint, Worker } from "../store/store.ts";

export interface HealthFacts {
  readonly image: { readonly progress: readonly string[]; readonly problem: string; readonly running: boolean };
  readonly isPrepared: boolean;
  /** Why its workers fail to start; "" when they do not. */
  readonly bootProblem: string;
  /** Its present revision has shown that it starts. */
  readonly isProven: boolean;
  /** Why it has fewer workers than it wants; undefined when it has them. `lasting`: waiting will not help. */
  readonly waits: { readonly reason: string; readonly lasting: boolean } | undefined;
  readonly workers: readonly Worker[];
}

/** Whether an endpoint can take work, and if not, why not. */
export function endpointHealth(
  endpoint: Endpoint | undefined,
  facts: (endpoint: Endpoint) => HealthFacts,
): EndpointHealth {
  if (endpoint === undefined || endpoint.workersMax === 0) return is("STOPPED");
  const { image, isPrepared, bootProblem, isProven, waits, workers } = facts(endpoint);
  if (image.problem !== "") return is("BLOCKED", image.problem);
  // What has shown that it starts is prepared anew with its first call since the platform started: until then it takes calls.
  if (!isPrepared && (image.running || !isProven)) return is("PREPARING", "", image.progress);
  if (bootProblem !== "") return is("BLOCKED", bootProblem);
  if (waits !== undefined)
    return isProven || waits.lasting ? is("READY", waits.reason) : is("PREPARING", "", [waits.reason]);
  if (!isProven) return is("PREPARING", "", ["starting the first worker"]);
  if (workers.some((row) => row.revision !== endpoint.revision && isActive(row.state))) {
    return is("PREPARING", "", ["replacing workers"]);
  }
  const ready = workers.filter((row) => row.state === "READY").length;
  if (ready < endpoint.workersMin) return is("PREPARING", "", [`${ready} of ${endpoint.workersMin} workers are ready`]);
  return is("READY");
}

function is(state: EndpointHealth["state"], reason = "", progress: readonly string[] = []): EndpointHealth {
  return { state, reason, progress };
}

/** `connected`: those that are ready. */
export function workerCounts(
  rows: readonly Worker[],
  connected: readonly { readonly busy: boolean }[],
  others: Pick<WorkerCounts, "throttled" | "unhealthy">,
): WorkerCounts {
  const running = connected.filter((worker) => worker.busy).length;
  return {
    idle: connected.length - running,
    initializing: rows.filter((row) => isInitializing(row.state)).length,
    ready: connected.length,
    running,
    ...others,
  };
}
