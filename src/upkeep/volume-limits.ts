/** The limits that deployed endpoints set for their volumes; of several for one volume the smallest counts. */
import { isRemovedName } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import { SHARED_PLACE, sizeLimitBytes, volumesOf } from "../domain/volume.ts";
import type { Endpoint, Store } from "../store/store.ts";

/** "app/environment/name" → bytes. */
export async function volumeLimits(store: Store): Promise<Map<string, number>> {
  const limits = new Map<string, number>();
  const take = (place: string, endpoints: readonly Endpoint[]) => {
    for (const endpoint of endpoints) {
      if (isRemoved(endpoint)) continue;
      for (const { name, sizeLimit } of volumesOf(endpoint.networkVolumeId)) {
        const bytes = sizeLimitBytes(sizeLimit) ?? Number.POSITIVE_INFINITY;
        const key = `${place}/${name}`;
        if (bytes < (limits.get(key) ?? Number.POSITIVE_INFINITY)) limits.set(key, bytes);
      }
    }
  };
  const ofNoEnvironment = (await store.endpoints.list()).filter(({ environmentId }) => environmentId === null);
  take(`${SHARED_PLACE.app}/${SHARED_PLACE.environment}`, ofNoEnvironment);
  for (const app of await store.apps.list()) {
    for (const environment of await store.environments.listByApp(app.id)) {
      if (isRemovedName(environment.name)) continue;
      take(`${app.name}/${environment.name}`, await store.endpoints.listByEnvironment(environment.id));
    }
  }
  return limits;
}
