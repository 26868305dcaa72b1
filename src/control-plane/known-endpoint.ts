import { SvcError } from "../domain/errors.ts";
import { isRemoved } from "../domain/removal.ts";
import type { Endpoint, Store } from "../store/store.ts";

/** Throws ENDPOINT_NOT_FOUND, also for an endpoint that only drains. */
export async function knownEndpoint(store: Store, id: string): Promise<Endpoint> {
  const endpoint = await store.endpoints.find(id);
  if (endpoint !== undefined && !isRemoved(endpoint)) return endpoint;
  throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint with the id "${id}".`, {
    help: "List them with `svc undeploy list`.",
  });
}
