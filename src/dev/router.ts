/** Which endpoint a local request is for, and its path there. Pure. */
import { type LocalRoute, modulePath } from "./local-routes.ts";

export interface Destination {
  readonly route: LocalRoute;
  /** Below the endpoint's URL, as it was sent: "/runsync", "/items/3". */
  readonly path: string;
  /** It runs code: the call must run the newest. False for a look at a job. */
  readonly runs: boolean;
}

const JOB_LOOKS = /^\/(?:(?:status|status-sync|stream|cancel|retry)\/[^/]+|health|requests|purge-queue)$/;
const JOB_CALLS = /^\/(?:run|runsync|openai\/.+)$/;

/**
 * `path` is as sent, without the query. Calls of queue-based functions come first, then declared routes, then the looks at
 * jobs; what stands below a load-balanced endpoint's module and fits no route is its own to refuse.
 */
export function findDestination(routes: readonly LocalRoute[], method: string, path: string): Destination | undefined {
  const queued = routes.filter((route) => route.kind === "queue" && path.startsWith(`${route.path}/`));
  const job = queued.map((route) => ({ route, path: path.slice(route.path.length) }));
  const call = job.find((each) => JOB_CALLS.test(each.path));
  if (call !== undefined) return { ...call, runs: true };
  const declared = bestRoute(routes, method, path);
  if (declared !== undefined) return { route: declared, path: below(declared, path), runs: true };
  const look = job.find((each) => JOB_LOOKS.test(each.path));
  if (look !== undefined) return { ...look, runs: false };
  const owner = ownerOf(routes, path);
  return owner && { route: owner, path: below(owner, path), runs: true };
}

/** The declared route with the fewest parameters, as on the endpoint itself. */
function bestRoute(routes: readonly LocalRoute[], method: string, path: string): LocalRoute | undefined {
  const fitting = routes.filter((route) => route.kind === "load-balanced" && takes(route, method) && fits(route, path));
  const parameters = ({ routePath, method }: LocalRoute) =>
    method === "ANY" ? Number.POSITIVE_INFINITY : routePath.split("{").length;
  return fitting.sort((a, b) => parameters(a) - parameters(b))[0];
}

function takes(route: LocalRoute, method: string): boolean {
  if (route.method === "ANY") return method !== "WEBSOCKET";
  return route.method === method || (method === "HEAD" && route.method === "GET");
}

function fits(route: LocalRoute, path: string): boolean {
  const prefix = prefixOf(route);
  if (!path.startsWith(prefix)) return false;
  const rest = path.slice(prefix.length);
  if (route.method === "ANY") return rest === "" || rest.startsWith("/");
  const pattern = route.routePath
    .split(/(\{[^}]*\})/)
    .map((part) => (part.startsWith("{") ? (part.endsWith(":path}") ? ".+" : "[^/]+") : escapeRegExp(part)))
    .join("");
  return new RegExp(`^${pattern}$`).test(rest) || (rest === "" && route.routePath === "/");
}

/** The endpoint whose routes stand below the longest part of the path. */
function ownerOf(routes: readonly LocalRoute[], path: string): LocalRoute | undefined {
  const below = routes.filter(
    (route) => route.kind === "load-balanced" && (path === prefixOf(route) || path.startsWith(`${prefixOf(route)}/`)),
  );
  return below.sort((a, b) => prefixOf(b).length - prefixOf(a).length)[0];
}

/** What stands before the route's own path. */
export function prefixOf(route: LocalRoute): string {
  if (route.kind === "queue") return route.path;
  return route.path.slice(0, route.path.length - route.routePath.length);
}

function below(route: LocalRoute, path: string): string {
  return path.slice(prefixOf(route).length) || "/";
}

/** For "there is no such path": the local paths of the same worker file, or all. */
export function pathsNear(routes: readonly LocalRoute[], path: string): string[] {
  const shown = routes.map(
    (route) => `${route.method} ${route.kind === "queue" ? `${route.path}/runsync` : route.path}`,
  );
  const near = shown.filter((_line, i) => path.startsWith(`${modulePath(routes[i]!.function.module)}/`));
  return near.length > 0 ? near : shown;
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
