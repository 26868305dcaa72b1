/** The endpoints a key sees, by their ids, with the names of their place: what lists over several of them are made of. */
import { reaches } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { isRemoved } from "../domain/removal.ts";
import type { Endpoint } from "../store/store.ts";
import type { RequestContext } from "./context.ts";
import type { RequestLoader } from "./request-loader.ts";

export interface EndpointFilter {
  /** Its id or its name. */
  readonly endpoint?: string | null;
  readonly app?: string | null;
  readonly environment?: string | null;
}

/** Names; null: it belongs to no environment. */
interface Place {
  readonly app: string | null;
  readonly environment: string | null;
}

export interface VisibleEndpoint extends Place {
  readonly id: string;
  readonly name: string;
}

/** Throws ENDPOINT_NOT_FOUND for an endpoint that is not among them. */
export async function visibleEndpoints(
  { endpoint, app, environment }: EndpointFilter,
  { principal, loader }: Pick<RequestContext, "principal" | "loader">,
): Promise<Map<string, VisibleEndpoint>> {
  const all = (await loader.endpoints()).filter((one) => !isRemoved(one) && reaches(principal, one));
  const seen = new Map<string, VisibleEndpoint>();
  for (const one of all) {
    const { id, name } = one;
    if (endpoint && endpoint !== id && endpoint !== name) continue;
    const place = await placeOf(one, loader);
    if ((app && app !== place.app) || (environment && environment !== place.environment)) continue;
    seen.set(id, { id, name, ...place });
  }
  if (endpoint && seen.size === 0) {
    throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint "${endpoint.slice(0, 100)}".`, {
      help: "List them with `svc status`.",
    });
  }
  return seen;
}

export async function placeOf({ environmentId }: Endpoint, loader: RequestLoader): Promise<Place> {
  const environment = environmentId === null ? undefined : await loader.environment(environmentId);
  if (environment === undefined) return { app: null, environment: null };
  return { app: (await loader.app(environment.appId))?.name ?? null, environment: environment.name };
}
