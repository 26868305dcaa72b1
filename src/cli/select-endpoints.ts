import type { EndpointRecord } from "../client/records.ts";
import { SvcError } from "../domain/errors.ts";
import { nearest } from "../domain/names.ts";
import { checkName } from "./project-settings.ts";

export interface Scope {
  readonly app?: string;
  readonly env?: string;
}

type Placed = Pick<EndpointRecord, "id" | "name" | "app" | "environment">;

/** The endpoints of an app and environment, each where given; by app, environment and name. */
export function inScope<E extends Placed>(endpoints: readonly E[], scope: Scope): E[] {
  if (scope.app !== undefined) checkName(scope.app, "--app");
  if (scope.env !== undefined) checkName(scope.env, "--env");
  return endpoints
    .filter((endpoint) => scope.app === undefined || endpoint.app === scope.app)
    .filter((endpoint) => scope.env === undefined || endpoint.environment === scope.env)
    .sort((a, b) => sortKey(a).localeCompare(sortKey(b)));
}

/**
 * The one endpoint a name means. Of several with that name those of `preferredApp` win. Throws ENDPOINT_NOT_FOUND
 * with the nearest names, or USAGE when the name stands for several.
 */
export function endpointNamed<E extends Placed>(candidates: readonly E[], name: string, preferredApp: string): E {
  const named = candidates.filter((endpoint) => endpoint.name === name || endpoint.id === name);
  const preferred = named.filter((endpoint) => endpoint.app === preferredApp);
  const matches = preferred.length > 0 ? preferred : named;
  if (matches.length === 1) return matches[0]!;
  if (matches.length > 1) {
    throw new SvcError("USAGE", `Several endpoints are named "${name}": ${matches.map(placeOf).join(", ")}.`, {
      help: "Give --app and --env.",
    });
  }
  const close = nearest(name, new Set(candidates.map((endpoint) => endpoint.name)));
  throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint "${name}".`, {
    help: close.length > 0 ? `Did you mean ${close.join(" or ")}?` : "svc undeploy list shows every endpoint.",
  });
}

/** "shop/production", or "no app" for one made by saveEndpoint alone. */
export function placeOf(endpoint: Placed): string {
  return endpoint.app === null ? "no app" : `${endpoint.app}/${endpoint.environment}`;
}

function sortKey(endpoint: Placed): string {
  return `${endpoint.app ?? "\uffff"}\0${endpoint.environment ?? ""}\0${endpoint.name}`;
}
