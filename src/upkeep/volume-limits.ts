/** The limits that deployed endpoints set for their volumes; of several for one volume the smallest counts. */
import { isRemovedName } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import { SHARED_PLACE, sizeLimitBytes, volumesOf } from "../domain/volume.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { Store } from "../store/store.ts";

/** "app/environment/name" → bytes. */
export async function volumeLimits(store: Store): Promise<Map<string, number>> {
  const limits = new Map<string, number>();
  const places = new Map<string | null, Promise<string | undefined>>();
  for (const endpoint of await store.endpoints.listBriefly()) {
    const { environmentId, networkVolumeId } = endpoint;
    if (networkVolumeId === "" || isRemoved(endpoint)) continue;
    const place = await getOrInsert(places, environmentId, () => placeOf(environmentId, store));
    if (place === undefined) continue;
    for (const { name, sizeLimit } of volumesOf(networkVolumeId)) {
      const bytes = sizeLimitBytes(sizeLimit) ?? Number.POSITIVE_INFINITY;
      const key = `${place}/${name}`;
      if (bytes < (limits.get(key) ?? Number.POSITIVE_INFINITY)) limits.set(key, bytes);
    }
  }
  return limits;
}

/** Undefined where nothing is deployed any more. */
async function placeOf(environmentId: string | null, store: Store): Promise<string | undefined> {
  if (environmentId === null) return `${SHARED_PLACE.app}/${SHARED_PLACE.environment}`;
  const environment = await store.environments.find(environmentId);
  if (environment === undefined || isRemovedName(environment.name)) return undefined;
  const app = await store.apps.find(environment.appId);
  return app && `${app.name}/${environment.name}`;
}
