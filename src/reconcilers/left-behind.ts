import type { Store } from "../store/store.ts";

/** Keeps something of endpoints beside the store: jobs, logs. */
export interface KeptOfEndpoints {
  /** Those that it keeps something of. */
  endpointIds(): Promise<string[]>;
  forget(endpointId: string): Promise<void>;
}

/**
 * Removes what is kept of endpoints that are gone: it goes with them, unless that failed or the platform was killed just then.
 * The first error is thrown when all was tried.
 */
export async function removeLeftBehind(
  store: Pick<Store, "endpoints">,
  places: readonly KeptOfEndpoints[],
): Promise<void> {
  // They are asked before the store, so that an endpoint that is made meanwhile is not taken for gone.
  const kept = await Promise.all(places.map((place) => place.endpointIds()));
  const known = new Set((await store.endpoints.list()).map(({ id }) => id));
  const errors: unknown[] = [];
  for (const [i, place] of places.entries()) {
    for (const id of kept[i]!) {
      if (!known.has(id)) await place.forget(id).catch((error: unknown) => errors.push(error));
    }
  }
  if (errors.length > 0) throw errors[0];
}
