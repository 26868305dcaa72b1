/** Jobs, workers and logs as management sees them where several platforms share the endpoints. */
import type { SeenWorker } from "../domain/worker.ts";
import type { OwnLoad } from "../gateway-link/managed.ts";
import type { Route } from "../gateway-link/route.ts";
import type { LogReader } from "../logs/log-store.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { AskedPlatforms } from "./asked-platforms.ts";
import { followOthers } from "./followed.ts";

const NO_LOAD: OwnLoad = { waitingRequests: 0, running: 0, oldestWaitMs: 0 };

export function sharedView(route: Route, asked: AskedPlatforms, queue: JobQueue) {
  const jobs: JobQueue = {
    ...queue,
    counts: async (endpointId) => route.ask((backing) => backing.queue.counts(endpointId), { endpointId }),
    forget: async (endpointId) => route.ask(({ managed }) => managed!.forget(endpointId), { endpointId }),
    setSchedule: async (endpointId, state) =>
      route.ask(({ managed }) => managed!.setSchedule(endpointId, state), { endpointId }),
  };
  return {
    jobs,
    workers: {
      counts: async (endpointId: string) => route.ask((backing) => backing.workers.counts(endpointId), { endpointId }),
      health: async (endpointId: string) => route.ask(({ managed }) => managed!.health(endpointId), { endpointId }),
      async decisions(endpointId: string) {
        const all = await asked.all((one) => one.decisions(endpointId));
        return all.flat().sort((a, b) => a.at - b.at);
      },
      waitingForRoom: async () => (await asked.all((one) => one.waitingForRoom())).flat(),
      // What it was asked before it gave the endpoint away is of no more use.
      seen: (endpointId: string, workerIds: readonly string[]) =>
        asked
          .owner(endpointId, (one) => one.seenWorkers(workerIds))
          .catch((): Readonly<Record<string, SeenWorker>> => ({})),
    },
    load: (endpointId: string) => asked.owner(endpointId, (one) => one.load(endpointId)).catch(() => NO_LOAD),
  };
}

/** Its lines are in the bucket, or held by one of them; who follows hears all. */
export function sharedLogs(asked: AskedPlatforms, logs: LogReader): LogReader {
  return {
    read: (endpointIds, between) => logs.read(endpointIds, between),
    follow(endpointIds, listener) {
      const stopHere = logs.follow(endpointIds, listener);
      const stopOthers = followOthers(asked, { logsOf: endpointIds }, async ({ lines, leftOut }) => {
        for (const news of lines) await listener(news);
        if (leftOut > 0) await listener({ endpointId: endpointIds[0]!, lines: [], leftOut });
      });
      return () => {
        stopHere();
        stopOthers();
      };
    },
  };
}
