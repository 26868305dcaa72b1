import { isRemovedName } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import type { JobUpkeep } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";

/**
 * Deletes endpoints that a deploy or undeploy removed, once their last worker is gone, and then their jobs. Removed
 * environments and apps follow their last endpoint.
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
      if (!isRemovedName(environment.name)) continue;
      if ((await store.endpoints.listByEnvironment(environment.id)).length > 0) continue;
      await store.environments.delete(environment.id);
    }
    if (!isRemovedName(app.name)) continue;
    if ((await store.environments.listByApp(app.id)).length === 0) await store.apps.delete(app.id);
  }
}
