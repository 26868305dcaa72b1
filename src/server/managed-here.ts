/** What this platform answers others that share endpoints with it. */
import { type IsMine, ofMine } from "../domain/own-endpoints.ts";
import type { SeenWorker } from "../domain/worker.ts";
import type { Managed } from "../gateway-link/managed.ts";
import type { RecordStore } from "../history/record-store.ts";
import type { SeriesStore } from "../history/series-store.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { Followed } from "./followed.ts";
import type { OpenedLogs } from "./logs.ts";

interface ManagedNeeds {
  /** Of the data directory: its numbers count there alone. */
  readonly home: string;
  readonly queue: JobQueue;
  readonly pool: WorkerPool;
  readonly link: WorkerLink;
  readonly logs: OpenedLogs;
  readonly series: SeriesStore;
  readonly records: RecordStore;
  readonly followed: Followed;
  readonly isMine: IsMine;
}

export function managedHere(needs: ManagedNeeds): Managed {
  const { home, queue, pool, link, logs, series, records, followed, isMine } = needs;
  return {
    health: ofMine(isMine, (endpointId) => pool.health(endpointId)),
    forget: (endpointId) => queue.forget(endpointId),
    setSchedule: (endpointId, state) => queue.setSchedule(endpointId, state),
    load: ofMine(isMine, (endpointId) => {
      const { waitingRequests, running } = link.sample(endpointId);
      return { waitingRequests, running, oldestWaitMs: link.oldestWaitMs(endpointId) };
    }),
    decisions: (endpointId) => pool.decisions(endpointId),
    waitingForRoom: () =>
      pool.waitingForRoom.map(({ endpointId, missing, reason }) => ({ endpointId, missing, reason })),
    seenWorkers: (workerIds) => seenWorkers(workerIds, pool, link),
    heldLines: (endpointIds, between) => logs.unsaved(endpointIds, between),
    series: (question) => series.parts(question),
    routeMetrics: (endpointId) => series.routeMetrics(endpointId),
    requests: async (filter, first, before) => ({ home, rows: await records.requests(filter, first, before[home]) }),
    pastDecisions: async (filter, first, before) => ({
      home,
      rows: await records.decisions(filter, first, before[home]),
    }),
    errorGroups: (filter, first) => records.errorGroups(filter, first),
    news: (follower, wish, signal) => followed.news(follower, wish, signal),
  };
}

export function seenWorkers(
  workerIds: readonly string[],
  pool: Pick<WorkerPool, "startOf">,
  link: Pick<WorkerLink, "doneBy" | "bootOf">,
): Record<string, SeenWorker> {
  return Object.fromEntries(
    workerIds.map((id) => [id, { start: pool.startOf(id), jobsDone: link.doneBy(id), boot: link.bootOf(id) }]),
  );
}
