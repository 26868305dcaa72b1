/** What the platform records of itself, wired: counts and samples go into series. */
import { statfs } from "node:fs/promises";
import path from "node:path";
import type { MachineView } from "../control-plane/context.ts";
import type { EndedRequest } from "../domain/request.ts";
import type { WorkerBoot } from "../domain/worker.ts";
import type { Capacity } from "../drivers/worker-driver.ts";
import { openHistory } from "../history/history-database.ts";
import type { SeriesStore } from "../history/series-store.ts";
import { SqliteSeries } from "../history/sqlite-series.ts";
import type { Log } from "../lib/log.ts";
import type { QueueEvents } from "../queue/queue.ts";
import type { Store, Worker } from "../store/store.ts";
import type { LoadSamplerDeps } from "../telemetry/load-sampler.ts";
import { MachineMeter, recordedUse } from "../telemetry/machine-use.ts";
import { Recorder } from "../telemetry/recorder.ts";
import { RouteNames } from "../telemetry/route-names.ts";
import { Tallies } from "../telemetry/tallies.ts";

const HISTORY_FILE = "history.db";

interface TelemetryNeeds extends LoadSamplerDeps {
  readonly dataDir: string;
  readonly store: Store;
  readonly queue: LoadSamplerDeps["queue"] & { readonly events: QueueEvents };
  readonly link: LoadSamplerDeps["link"] & { bootOf(workerId: string): WorkerBoot | undefined };
  readonly capacity: () => Promise<Capacity>;
  readonly log: Log;
  readonly onError: (error: unknown) => void;
}

export interface Telemetry {
  readonly series: SeriesStore;
  readonly machine: MachineView;
  workerReady(worker: Worker): void;
  requestEnded(request: EndedRequest): void;
  start(): void;
  /** Records what is left. The platform's other parts still run. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

export function openTelemetry(needs: TelemetryNeeds): Telemetry {
  const { dataDir, store, queue, link, capacity, log, onError } = needs;
  const history = openHistory(path.join(dataDir, HISTORY_FILE), { told: (line, facts) => log.error(line, facts) });
  const series = new SqliteSeries(history);
  const tallies = new Tallies();
  const routes = new RouteNames(store, onError);
  const meter = new MachineMeter();
  const use = async () => meter.read(await capacity());
  const recorder = new Recorder({
    ...needs,
    series,
    tallies,
    machine: async () => recordedUse(await use()),
    onStep: () => {},
  });
  queue.events.jobFinished((job) => tallies.of(job.endpointId).jobFinished(job));
  return {
    series,
    machine: {
      capacity,
      async used() {
        const { vcpus, memory } = await use();
        return { vcpus: vcpus.used, memoryGb: memory.used };
      },
      async disk() {
        const { bavail, blocks, bsize } = await statfs(dataDir);
        return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
      },
    },
    workerReady({ id, endpointId }) {
      const boot = link.bootOf(id);
      if (boot !== undefined) tallies.of(endpointId).workerReady(boot.bootMs, boot.importMs);
    },
    requestEnded({ endpoint, method, path: wanted, status, totalMs }) {
      tallies.of(endpoint.id).requestEnded(routes.find(endpoint, method, wanted), status, totalMs);
    },
    start: () => recorder.start(),
    stop: () => recorder.stop(),
    close: () => history.close(),
  };
}
