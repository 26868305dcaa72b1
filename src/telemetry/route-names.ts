/** Which of its endpoint's routes a request meant. What is no route has one name: who calls must not make names. */
import { CACHED_BUILDS_MAX } from "../domain/limits.ts";
import { type RoutePattern, readRoute } from "../domain/route-pattern.ts";
import type { Endpoint, Store } from "../store/store.ts";
import { OTHER_ROUTE } from "./tallies.ts";

interface NamedPattern extends RoutePattern {
  readonly key: string;
}

export class RouteNames {
  readonly #store: Pick<Store, "builds">;
  /** By build and name of the endpoint. A build never changes. */
  readonly #known = new Map<string, readonly NamedPattern[]>();
  /** The same by the endpoint as the gateway has it, which is another object once it has changed: this runs for every request. */
  readonly #ofEndpoint = new WeakMap<object, readonly NamedPattern[]>();
  readonly #reading = new Set<string>();
  readonly #onError: (error: unknown) => void;

  constructor(store: Pick<Store, "builds">, onError: (error: unknown) => void) {
    this.#store = store;
    this.#onError = onError;
  }

  /** Answers at once: until the routes of a new build are read, its requests are of no route. */
  find(endpoint: Pick<Endpoint, "buildId" | "name">, method: string, path: string): string {
    const routes = this.#ofEndpoint.get(endpoint) ?? this.#routesOf(endpoint);
    return routes === undefined ? OTHER_ROUTE : nameOf(routes, method, path);
  }

  #routesOf(endpoint: Pick<Endpoint, "buildId" | "name">): readonly NamedPattern[] | undefined {
    if (endpoint.buildId === null) return undefined;
    const key = `${endpoint.buildId} ${endpoint.name}`;
    const routes = this.#known.get(key);
    if (routes !== undefined) this.#ofEndpoint.set(endpoint, routes);
    else if (!this.#reading.has(key)) {
      this.#reading.add(key);
      this.#read(key, endpoint.buildId, endpoint.name)
        .catch(this.#onError)
        .finally(() => this.#reading.delete(key));
    }
    return routes;
  }

  async #read(key: string, buildId: string, name: string): Promise<void> {
    const build = await this.#store.builds.find(buildId);
    const routes =
      build !== undefined && Object.hasOwn(build.manifest.routes, name) ? build.manifest.routes[name]! : {};
    // The more of a path is fixed, the sooner it is tried, as on the worker.
    const parameters = (route: string) => route.split("{").length;
    const keys = Object.keys(routes).sort((a, b) => parameters(a) - parameters(b));
    if (this.#known.size >= CACHED_BUILDS_MAX) this.#known.clear();
    this.#known.set(
      key,
      keys.map((route) => ({ key: route, ...readRoute(route) })),
    );
  }
}

function nameOf(routes: readonly NamedPattern[], method: string, path: string): string {
  const wanted = method === "HEAD" ? "GET" : method;
  for (const route of routes) if (route.method === wanted && route.path.test(path)) return route.key;
  return routes.find((route) => route.method === "ANY")?.key ?? OTHER_ROUTE;
}
