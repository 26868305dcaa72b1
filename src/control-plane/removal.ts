/**
 * Removing an endpoint, environment or app without failing what it runs: endpoints without workers go at once, the others drain.
 * While one drains, the environment (and its app) stay under a name nobody can use (src/upkeep/removed-endpoints.ts)
 */

import { removedName } from "../domain/names.ts";
import { isRemoved, removal } from "../domain/removal.ts";
import type { App, Endpoint, Environment, Store } from "../store/store.ts";

/**
 * Deletes the endpoint, or marks it as removed while it has workers: those finish what they run first.
 * "deleted": the caller forgets its jobs after the commit.
 */
export async function removeEndpoint(store: Store, endpoint: Endpoint, now: number): Promise<"deleted" | "draining"> {
  const workers = await store.workers.listByEndpoint(endpoint.id);
  if (workers.length > 0 && endpoint.environmentId !== null) {
    await store.endpoints.update(endpoint.id, removal(endpoint, now));
    return "draining";
  }
  await store.endpoints.delete(endpoint.id);
  return "deleted";
}

interface RemovedPlace {
  /** Names of the endpoints that went or drain. */
  readonly endpoints: string[];
  /** Ids of those that are gone: the caller forgets their jobs after the commit. */
  readonly deleted: string[];
}

export async function removeEnvironment(store: Store, environment: Environment, now: number): Promise<RemovedPlace> {
  const removed: RemovedPlace = { endpoints: [], deleted: [] };
  for (const endpoint of await store.endpoints.listByEnvironment(environment.id)) {
    if (isRemoved(endpoint)) continue;
    removed.endpoints.push(endpoint.name);
    if ((await removeEndpoint(store, endpoint, now)) === "deleted") removed.deleted.push(endpoint.id);
  }
  for (const key of await store.keys.list()) {
    if (key.environmentId === environment.id) await store.keys.delete(key.id);
  }
  for (const alert of await store.alerts.list()) {
    if (alert.environmentId === environment.id) await store.alerts.delete(alert.id);
  }
  const draining: Endpoint[] = await store.endpoints.listByEnvironment(environment.id);
  if (draining.length === 0) {
    await store.environments.delete(environment.id);
  } else {
    await store.environments.setBuild(environment.id, null);
    await store.environments.rename(environment.id, removedName(environment));
  }
  return removed;
}

export async function removeApp(store: Store, app: App, now: number): Promise<RemovedPlace> {
  const removed: RemovedPlace = { endpoints: [], deleted: [] };
  for (const environment of await store.environments.listByApp(app.id)) {
    const { endpoints, deleted } = await removeEnvironment(store, environment, now);
    removed.endpoints.push(...endpoints);
    removed.deleted.push(...deleted);
  }
  if ((await store.environments.listByApp(app.id)).length === 0) await store.apps.delete(app.id);
  else await store.apps.rename(app.id, removedName(app));
  return removed;
}
