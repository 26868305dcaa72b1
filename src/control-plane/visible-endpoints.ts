/** The endpoints a key sees, by their ids, with the names of their place: what lists over several of them are made of. */
import { reaches } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { isRemoved } from "../domain/removal.ts";
import type { RequestContext } from "./context.ts";

export interface EndpointFilter {
  /** Its id or its name. */
  readonly endpoint?: string | null;
  readonly app?: string | null;
  readonly environment?: string | null;
}

export interface VisibleEndpoint {
  readonly id: string;
  readonly name: string;
  readonly app: string | null;
  readonly environment: string | null;
}

/** Throws ENDPOINT_NOT_FOUND for an endpoint that is not among them. */
export async function visibleEndpoints(
  { endpoint, app, environment }: EndpointFilter,
  { store, principal, loader }: Pick<RequestContext, "store" | "principal" | "loader">,
): Promise<Map<string, VisibleEndpoint>> {
  const all = (await store.endpoints.list()).filter((one) => !isRemoved(one) && reaches(principal, one));
  const seen = new Map<string, VisibleEndpoint>();
  for (const { id, name, environmentId } of all) {
    if (endpoint && endpoint !== id && endpoint !== name) continue;
    const place = environmentId === null ? undefined : await loader.environment(environmentId);
    const ofApp = place === undefined ? null : ((await loader.app(place.appId))?.name ?? null);
    if ((app && app !== ofApp) || (environment && environment !== place?.name)) continue;
    seen.set(id, { id, name, app: ofApp, environment: place?.name ?? null });
  }
  if (endpoint && seen.size === 0) {
    throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint "${endpoint.slice(0, 100)}".`, {
      help: "List them with `svc status`.",
    });
  }
  return seen;
}
