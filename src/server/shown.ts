/** What management shows: of this platform, or of all that share the endpoints. */
import type { ControlPlaneDeps } from "../control-plane/context.ts";
import type { Managed, OwnLoad } from "../gateway-link/managed.ts";
import type { LogReader } from "../logs/log-store.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { AskedPlatforms } from "./asked-platforms.ts";
import { Followed, sharedEvents } from "./followed.ts";
import type { OpenedLogs } from "./logs.ts";
import { managedHere, seenWorkers } from "./managed-here.ts";
import { sharedHistory } from "./shared-history.ts";
import { sharedLogs, sharedView } from "./shared-view.ts";
import type { Sharing } from "./sharing.ts";
import type { Telemetry } from "./telemetry.ts";

interface ShownNeeds {
  readonly sharing: Sharing | undefined;
  readonly asked: AskedPlatforms | undefined;
  readonly queue: JobQueue;
  readonly pool: WorkerPool;
  readonly link: WorkerLink;
  readonly logs: OpenedLogs;
  readonly telemetry: Telemetry;
}

interface Shown extends Pick<ControlPlaneDeps, "workers" | "series" | "records" | "events"> {
  readonly jobs: JobQueue;
  readonly logs: LogReader;
  readonly load: (endpointId: string) => OwnLoad | Promise<OwnLoad>;
}

/** `managed`: what others ask of this one; undefined where it is alone. */
export function makeShown(needs: ShownNeeds): { readonly shown: Shown; readonly managed: Managed | undefined } {
  const { sharing, asked, queue, pool, link, logs, telemetry } = needs;
  const { series, records, events } = telemetry;
  if (sharing === undefined || asked === undefined) {
    const workers = {
      counts: (endpointId: string) => pool.counts(endpointId),
      health: (endpointId: string) => pool.health(endpointId),
      decisions: (endpointId: string) => pool.decisions(endpointId),
      waitingForRoom: () => pool.waitingForRoom,
      seen: (_endpointId: string, workerIds: readonly string[]) => seenWorkers(workerIds, pool, link),
    };
    const load = (endpointId: string) => ({ ...link.sample(endpointId), oldestWaitMs: link.oldestWaitMs(endpointId) });
    const shown = { jobs: queue, workers, load, logs: logs.store, series, records: pagesByNumber(records), events };
    return { shown, managed: undefined };
  }
  const followed = new Followed({ logs: logs.store, events });
  const { home, route, shards } = sharing;
  const { isMine } = shards;
  const managed = managedHere({ home, queue, pool, link, logs, series, records, followed, isMine });
  asked.here = managed;
  const shown = {
    ...sharedView(route, asked, queue),
    ...sharedHistory(asked),
    logs: sharedLogs(asked, logs.store),
    events: sharedEvents(asked, events),
  };
  return { shown, managed };
}

/** Whoever is alone names pages by numbers. */
function pagesByNumber(records: Telemetry["records"]): ControlPlaneDeps["records"] {
  const numberOf = (before: number | string | undefined) => (before === undefined ? undefined : Number(before) || 0);
  return {
    requests: (filter, first, before) => records.requests(filter, first, numberOf(before)),
    decisions: (filter, first, before) => records.decisions(filter, first, numberOf(before)),
    errorGroups: (filter, first) => records.errorGroups(filter, first),
  };
}
