/** The background work on what is stored, each part a reconciler. */
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import {
  LAYER_SWEEP_MS,
  LEASE_CHECK_MS,
  LEFT_BEHIND_MS,
  RECONCILE_MS,
  RECORDS_SWEEP_MS,
  SWEEP_MS,
} from "../domain/limits.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import type { EndpointHealth } from "../domain/worker.ts";
import type { PreparedFiles } from "../drivers/worker-driver.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import { expiredLeases } from "../upkeep/expired-leases.ts";
import { removeOldRecords } from "../upkeep/old-records.ts";
import { removeDrainedEndpoints, removeLeftBehind } from "../upkeep/removed-endpoints.ts";
import { removeUnusedLayers } from "../upkeep/unused-layers.ts";
import { judgeBuilds } from "../workers/build-verdicts.ts";
import type { Images } from "../workers/images.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";

interface UpkeepNeeds {
  readonly store: Store;
  readonly queue: JobQueue;
  readonly isMine: IsMine;
  readonly pool: WorkerPool;
  /** How endpoints fare, whoever has them. */
  readonly health: (endpointId: string) => Promise<EndpointHealth>;
  /** Whether this platform does what one does for all that share a database. */
  readonly isFirst: () => boolean;
  readonly artifacts: ArtifactStore;
  readonly files: PreparedFiles;
  readonly images: Images;
  readonly clock: () => number;
  /** Who keeps something of endpoints that must go with them. */
  readonly keptByEndpoint: Parameters<typeof removeLeftBehind>[1];
  readonly onError: (name: string, error: unknown) => void;
}

export function makeUpkeep({ store, queue, isMine, pool, health, isFirst, clock, onError, ...needs }: UpkeepNeeds) {
  const { artifacts, files, images, keptByEndpoint } = needs;
  const every = (name: string, ms: number, work: () => Promise<unknown>) => new Reconciler(name, ms, work, onError);
  const removed = every("removed-endpoints", RECONCILE_MS, () => removeDrainedEndpoints(store, queue, isMine));
  const once = (name: string, ms: number, work: () => Promise<unknown>) =>
    every(name, ms, async () => (isFirst() ? work() : undefined));
  const verdicts = once("build-verdicts", RECONCILE_MS, () => judgeBuilds({ store, health, clock }));
  const rows = every("worker-pool", RECONCILE_MS, () => pool.reconcile());
  const unusedLayers = () => removeUnusedLayers({ store, artifacts, files, images, clock, isFirst });
  const all = [
    removed,
    verdicts,
    rows,
    every("expired-jobs", LEASE_CHECK_MS, expiredLeases(queue)),
    every("retention", SWEEP_MS, () => queue.sweep()),
    every("unused-layers", LAYER_SWEEP_MS, unusedLayers),
    once("old-records", RECORDS_SWEEP_MS, () => removeOldRecords(store, clock)),
    every("left-behind", LEFT_BEHIND_MS, () => removeLeftBehind(store, keptByEndpoint)),
  ];
  return { all, removed, verdicts, rows };
}
