import { isRemoved } from "../domain/removal.ts";
import type { JobUpkeep } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";

/** Deletes endpoints that a deploy or undeploy removed, once their last worker is gone, and then their jobs. */
export async function removeDrainedEndpoints(store: Store, jobs: Pick<JobUpkeep, "forget">): Promise<void> {
  for (const endpoint of await store.endpoints.list()) {
    if (!isRemoved(endpoint)) continue;
    if ((await store.workers.listByEndpoint(endpoint.id)).length > 0) continue;
    await store.endpoints.delete(endpoint.id);
    await jobs.forget(endpoint.id);
  }
}
