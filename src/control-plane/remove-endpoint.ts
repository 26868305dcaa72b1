import { removal } from "../domain/removal.ts";
import type { Endpoint, Store } from "../store/store.ts";

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
