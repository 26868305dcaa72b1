/**
 * Where each function of the project answers on the local server: below the path of its worker file.
 *
 * A queue-based function has the job routes: `/<module>/runsync`, or `/<module>/<function>/runsync` when its file has
 * several. Of several endpoints of one name of a function (a class with other options) the later ones have
 * `/<module>/<endpoint>/runsync`, as a program that pulls its jobs has where it is not alone. A load-balanced route keeps its own path behind the module's. Where two would be the same, the later
 * endpoint's routes stand below its name: `/<module>/<endpoint>/<path>`.
 */
import type { EndpointDeclaration } from "../build/endpoint-declaration.ts";
import type { ManifestFunction } from "../domain/manifest.ts";
import type { Schedule } from "../domain/schedule.ts";

export interface LocalRoute {
  readonly kind: "queue" | "load-balanced";
  /** Upper case; ANY for a whole ASGI application, WEBSOCKET for a socket. POST for a queue-based function. */
  readonly method: string;
  /** On the local server: "/shop/orders/items/{item_id}". For a queue-based function what its job routes start with. */
  readonly path: string;
  /** On the endpoint itself: "/items/{item_id}"; "" for a queue-based function. */
  readonly routePath: string;
  /** The name the code gives the endpoint, without the prefix of live ones. */
  readonly endpoint: string;
  readonly function: ManifestFunction;
  /** When a platform calls it by itself once it is deployed. */
  readonly schedule?: Schedule;
}

/** Routes in the order of endpoints and their declarations; those of queue-based functions come first. */
export function localRoutes(endpoints: readonly EndpointDeclaration[]): LocalRoute[] {
  const queued = endpoints.filter((endpoint) => endpoint.kind === "queue").map(asCalled);
  const routed = endpoints.filter((endpoint) => endpoint.kind === "load-balanced");
  const inModule = new Map<string, number>();
  const taken = new Set<string>();
  const pathOf = (fn: ManifestFunction, endpoint: string) => {
    if (inModule.get(fn.module) === 1) return modulePath(fn.module);
    const path = `${modulePath(fn.module)}/${fn.name}`;
    if (taken.has(path)) return `${modulePath(fn.module)}/${endpoint}`;
    taken.add(path);
    return path;
  };
  for (const { functions } of queued) {
    for (const { module } of functions) inModule.set(module, (inModule.get(module) ?? 0) + 1);
  }
  const routes: LocalRoute[] = queued.flatMap((endpoint) =>
    endpoint.functions.map((fn) => ({
      kind: "queue",
      method: "POST",
      path: pathOf(fn, endpoint.name),
      routePath: "",
      endpoint: endpoint.name,
      function: fn,
      schedule: endpoint.schedule,
    })),
  );
  const there = new Set(routes.flatMap(({ path }) => [`POST ${path}/run`, `POST ${path}/runsync`]));
  for (const endpoint of routed) {
    const own = endpoint.routes.map((route) => ({
      kind: "load-balanced" as const,
      method: route.method,
      prefix: modulePath(route.function.module),
      routePath: route.path,
      endpoint: endpoint.name,
      function: route.function,
    }));
    const clash = own.some(({ method, prefix, routePath }) => there.has(`${method} ${prefix}${routePath}`));
    for (const { prefix, ...route } of own) {
      const path = `${prefix}${clash ? `/${endpoint.name}` : ""}${route.routePath}`;
      there.add(`${route.method} ${path}`);
      routes.push({ ...route, path });
    }
  }
  return routes;
}

/** A program that pulls its jobs is no function: it goes by its endpoint's name, and takes any input. */
function asCalled(endpoint: EndpointDeclaration): EndpointDeclaration {
  const { name, server, functions } = endpoint;
  if (server?.protocol !== "pull") return endpoint;
  const doc = `Runs ${server.command.join(" ") || "what its image runs"}.`;
  const parameters = [{ name: "**input", annotation: "", default: null, schema: {} }];
  return { ...endpoint, functions: functions.map((fn) => ({ ...fn, name, doc, parameters })) };
}

/** `workers.hello` answers below /workers/hello. */
export function modulePath(module: string): string {
  return `/${module.replaceAll(".", "/")}`;
}
