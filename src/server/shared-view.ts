/** Jobs and workers as management sees them where several platforms share the endpoints: each question goes to whoever has its endpoint. */
import type { Managed } from "../gateway-link/asked.ts";
import type { Route } from "../gateway-link/route.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";

export function sharedView(route: Route, queue: JobQueue, pool: WorkerPool) {
  const managed = async <T>(endpointId: string, ask: (managed: Managed) => T | Promise<T>): Promise<T> =>
    route.ask((backing) => ask(backing.managed!), { endpointId });
  const jobs: JobQueue = {
    ...queue,
    counts: async (endpointId) => route.ask((backing) => backing.queue.counts(endpointId), { endpointId }),
    forget: (endpointId) => managed(endpointId, (one) => one.forget(endpointId)),
    setSchedule: (endpointId, state) => managed(endpointId, (one) => one.setSchedule(endpointId, state)),
  };
  return {
    jobs,
    workers: {
      counts: async (endpointId: string) => route.ask((backing) => backing.workers.counts(endpointId), { endpointId }),
      health: (endpointId: string) => managed(endpointId, (one) => one.health(endpointId)),
      decisions: (endpointId: string) => pool.decisions(endpointId),
      startOf: (workerId: string) => pool.startOf(workerId),
      get waitingForRoom() {
        return pool.waitingForRoom;
      },
    },
  };
}

/** What the others ask of this platform. */
export function managedHere(queue: JobQueue, pool: WorkerPool): Managed {
  return {
    health: (endpointId) => pool.health(endpointId),
    forget: (endpointId) => queue.forget(endpointId),
    setSchedule: (endpointId, state) => queue.setSchedule(endpointId, state),
  };
}
