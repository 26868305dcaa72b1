import { CACHED_ENDPOINTS_MAX } from "../domain/limits.ts";
import type { Endpoint, Store } from "./store.ts";

export interface EndpointCache {
  /** At once when it is known; a promise on the first look-up and after a change. */
  find(id: string): Endpoint | undefined | Promise<Endpoint | undefined>;
}

/** Endpoints by id, dropped as soon as the store says they changed. Unknown ids are not kept. */
export function createEndpointCache(store: Store): EndpointCache {
  const known = new Map<string, Endpoint>();
  let changes = 0;
  store.onChange((change) => {
    if (change.table !== "endpoints") return;
    changes++;
    known.delete(change.id);
  });

  async function load(id: string): Promise<Endpoint | undefined> {
    const before = changes;
    const endpoint = await store.endpoints.find(id);
    // A change during the look-up may have made this answer old: it is right for now, but not kept.
    if (endpoint !== undefined && changes === before) {
      if (known.size >= CACHED_ENDPOINTS_MAX) known.clear();
      known.set(id, endpoint);
    }
    return endpoint;
  }

  return { find: (id) => known.get(id) ?? load(id) };
}
