/**
 * The `publicRoutes` setting: which routes of a load-balanced endpoint answer callers without a key. "" for none, "*" for
 * everything below its URL, else a line `METHOD /path` for each, as in the manifest.
 */
import { type RoutePattern, readRoute } from "./route-pattern.ts";

export const ALL_ROUTES = "*";

export function publicRoutesOf(publicRoutes: string): string[] {
  return publicRoutes === "" ? [] : publicRoutes.split("\n");
}

/** Whether callers without a key reach the route, a key of the manifest. */
export function isPublic(publicRoutes: string, route: string): boolean {
  return publicRoutes === ALL_ROUTES || publicRoutesOf(publicRoutes).includes(route);
}

/** In words, for people: "everything", or the routes. */
export function publicWords(publicRoutes: string): string {
  if (publicRoutes === "") return "nothing";
  return publicRoutes === ALL_ROUTES ? "everything below its URL" : publicRoutesOf(publicRoutes).join(", ");
}

/** Why the endpoint cannot have them; undefined when it can. `routes` are all it has, as keys of the manifest. */
export function publicRoutesProblem(publicRoutes: string, routes: readonly string[]): string | undefined {
  if (publicRoutes === "") return undefined;
  if (routes.length === 0) return "publicRoutes is for load-balanced endpoints: jobs need a key.";
  if (publicRoutes === ALL_ROUTES) return undefined;
  const unknown = publicRoutesOf(publicRoutes).find((route) => !routes.includes(route));
  return unknown === undefined ? undefined : `publicRoutes names ${JSON.stringify(unknown)}, which is no route of it.`;
}

/**
 * Whether a call may be one of a public route. It says yes to every path that the worker takes for one, and to some that
 * it does not: which route a path reaches is the worker's to say, and it refuses calls without a key of any other.
 */
export class PublicRoutes {
  readonly #routes: readonly RoutePattern[];
  readonly #all: boolean;

  constructor(publicRoutes: string) {
    this.#all = publicRoutes === ALL_ROUTES;
    this.#routes = this.#all ? [] : publicRoutesOf(publicRoutes).map(readRoute);
  }

  mayReach(method: string, path: string): boolean {
    if (this.#all) return true;
    const decoded = path.includes("%") ? decodeOrNothing(path) : path;
    return this.#routes.some(
      (route) =>
        (route.method === method || (method === "HEAD" && route.method === "GET")) &&
        (route.path.test(path) || route.path.test(decoded)),
    );
  }
}

function decodeOrNothing(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return "";
  }
}
