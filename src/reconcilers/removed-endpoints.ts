import { isLiveName, isRemovedName } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import type { JobUpkeep } from "../queue/queue.ts";
import type { Environment, Store } from "../store/store.ts";

/**
 * Deletes endpoints that a deploy or undeploy removed, once their last worker is gone, and then their jobs. Removed
 * environments and apps follow their last endpoint, and so do those of `svc run`, which nobody made by name.
 */
export async function removeDrainedEndpoints(store: Store, jobs: Pick<JobUpkeep, "forget">): Promise<void> {
  for (const endpoint of await store.endpoints.list()) {
    if (!isRemoved(endpoint)) continue;
    if ((await store.workers.listByEndpoint(endpoint.id)).length > 0) continue;
    await store.endpoints.delete(endpoint.id);
    await jobs.forget(endpoint.id);
  }
  await store.transaction(removeEmptyPlaces);
}

async function removeEmptyPlaces(store: Store): Promise<void> {
  for (const app of await store.apps.list()) {
    for (const environment of await store.environments.listByApp(app.id)) {
      if (!goesWithItsLastEndpoint(environment)) continue;
      if ((await store.endpoints.listByEnvironment(environment.id)).length > 0) continue;
      for (const key of await store.keys.list()) {
        if (key.environmentId === environment.id) await store.keys.delete(key.id);
      }
      await store.environments.delete(environment.id);
    }
    if (!isRemovedName(app.name)) continue;
    if ((await store.environments.listByApp(app.id)).length === 0) await store.apps.delete(app.id);
  }
}

/** A live environment without a build has had no endpoint yet. */
function goesWithItsLastEndpoint({ name, buildId }: Environment): boolean {
  return isRemovedName(name) || (isLiveName(name) && buildId !== null);
}
