/** The limits that deployed endpoints set for their volumes; of several for one volume the smallest counts. */
import { isRemovedName } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import { sizeLimitBytes, volumesOf } from "../domain/volume.ts";
import type { Store } from "../store/store.ts";

/** "app/environment/name" → bytes. */
export async function volumeLimits(store: Store): Promise<Map<string, number>> {
  const limits = new Map<string, number>();
  for (const app of await store.apps.list()) {
    for (const environment of await store.environments.listByApp(app.id)) {
      if (isRemovedName(environment.name)) continue;
      for (const endpoint of await store.endpoints.listByEnvironment(environment.id)) {
        if (isRemoved(endpoint)) continue;
        for (const { name, sizeLimit } of volumesOf(endpoint.networkVolumeId)) {
          const key = `${app.name}/${environment.name}/${name}`;
          const bytes = sizeLimitBytes(sizeLimit) ?? Number.POSITIVE_INFINITY;
          if (bytes < (limits.get(key) ?? Number.POSITIVE_INFINITY)) limits.set(key, bytes);
        }
      }
    }
  }
  return limits;
}
