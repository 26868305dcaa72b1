import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { newSecret } from "../domain/api-key.ts";
import { unlessFull } from "../domain/storage.ts";
import { type Volume, volumeFull } from "../domain/volume.ts";
import type { WorkerDriver, WorkerSpec } from "../drivers/worker-driver.ts";
import type { Endpoint, Store } from "../store/store.ts";
import type { Images } from "./images.ts";

export interface StartDeps {
  /** Where its row is kept. */
  readonly store: { readonly workers: Pick<Store["workers"], "insert" | "delete"> };
  readonly driver: WorkerDriver;
  /** The variables of a worker, with the values of its secrets. */
  readonly envOf: (endpoint: Endpoint) => Promise<Readonly<Record<string, string>>>;
  /** It has reached its limit. */
  readonly isFull: (volume: Volume) => boolean;
  /** A worker was started that pulls its jobs. */
  readonly link: { expectPull(workerId: string): void };
  /** The time of day. */
  readonly clock: () => number;
}

export function newWorkerId(): string {
  return `w-${randomUUID().slice(0, 13)}`;
}

/**
 * Starts one worker. Its row is written while it comes up: it is there before the worker can say HELLO. Throws what the
 * driver throws; no row stays then.
 */
export async function startWorker(
  { store, driver, envOf, isFull, link, clock }: StartDeps,
  workerId: string,
  endpoint: Endpoint,
  prepared: NonNullable<ReturnType<Images["of"]>>,
  where: Pick<WorkerSpec, "beyondCapacity" | "onHost">,
): Promise<void> {
  const { secret, hash } = newSecret("worker");
  const { image, appName, environmentName, gpuPreference } = prepared;
  const full = image.volumes.find((volume) => !volume.readOnly && isFull(volume));
  if (full !== undefined) throw volumeFull(full.name);
  const { kind, revision, maxConcurrency, instanceIds, gpuIds, gpuCount } = endpoint;
  try {
    const env = await envOf(endpoint);
    const started = driver.start({
      workerId,
      token: secret,
      revision,
      image,
      appName,
      environmentName,
      kind,
      env,
      maxConcurrency,
      instanceIds,
      gpuIds,
      gpuPreference,
      gpuCount,
      hosts: endpoint.hosts,
      ...where,
    });
    started.catch(() => {}); // It is looked at below.
    await setImmediate(); // START leaves first.
    const written = store.workers.insert({
      id: workerId,
      endpointId: endpoint.id,
      buildId: image.buildId,
      revision,
      state: "STARTING",
      tokenHash: hash,
      createdAt: clock(),
      readyAt: null,
      reason: "",
    });
    const [row, start] = await Promise.allSettled([written, started]);
    if (row.status === "rejected") await driver.stop(workerId, 0);
    for (const result of [start, row]) if (result.status === "rejected") throw result.reason;
    if (image.pulls !== undefined) link.expectPull(workerId);
  } catch (error) {
    await store.workers.delete(workerId).catch(unlessFull);
    throw error;
  }
}
