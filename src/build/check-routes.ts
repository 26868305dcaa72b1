import type { Diagnostic } from "./build-result.ts";
import type { RouteDeclaration } from "./endpoint-declaration.ts";

/** Answered by the runtime itself. */
export const RESERVED_PATHS = ["/ping"];

const PARAMETER = /\{([^{}]*)\}/g;

/** Findings about the routes of one load-balanced endpoint. */
export function checkRoutes(
  endpoint: string,
  routes: readonly RouteDeclaration[],
  report: (d: Diagnostic) => void,
): void {
  const first = new Map<string, RouteDeclaration>();
  const functions = new Map<string, RouteDeclaration>();
  for (const route of routes) {
    const { method, path, place } = route;
    const error = (rule: string, message: string, help: string) =>
      report({ severity: "error", rule, message, help, ...place });
    if (!path.startsWith("/")) {
      error("route-path", `A route's path starts with "/", not ${JSON.stringify(path)}.`, `Write "/${path}".`);
      continue;
    }
    if (/[?#\s]/.test(path.replace(PARAMETER, ""))) {
      error(
        "route-path",
        `The path ${path} holds a character that a path cannot have.`,
        "Query parameters are parameters of the function; leave them out of the path.",
      );
    }
    if (RESERVED_PATHS.includes(path)) {
      error(
        "reserved-path",
        `${path} is answered by the runtime itself (200 when ready, 204 while booting).`,
        'Choose another path, for example "/health".',
      );
    }
    if (method === "WEBSOCKET" && (!route.function.async || route.function.parameters.length === 0)) {
      error(
        "websocket-function",
        `${route.function.name}() is no async function that takes a connection.`,
        `Write async def ${route.function.name}(socket: WebSocket).`,
      );
    }
    checkParameters(route, error);
    const shape = `${method} ${path.replace(PARAMETER, "{}")}`;
    const earlier = first.get(shape);
    if (earlier === undefined) first.set(shape, route);
    else {
      const where = `${earlier.place.file}:${earlier.place.line}`;
      error(
        "duplicate-route",
        `${method} ${path} of endpoint "${endpoint}" is declared twice; the first is ${earlier.function.name}() in ${where}.`,
        "Change the path or the method of one of them.",
      );
    }
    const key = `${route.function.module}.${route.function.name}`;
    const sameName = functions.get(key);
    if (sameName === undefined) functions.set(key, route);
    else if (sameName.function !== route.function) {
      error(
        "duplicate-function",
        `${route.function.name}() is defined twice in ${place.file}; the second definition replaces the first.`,
        "Give the functions different names.",
      );
    }
  }
}

function checkParameters(
  { path, function: { parameters, name } }: RouteDeclaration,
  error: (rule: string, message: string, help: string) => void,
): void {
  const taken = new Set(parameters.map((parameter) => parameter.name));
  const takesAny = parameters.some((parameter) => parameter.name.startsWith("**"));
  const inPath = [...path.matchAll(PARAMETER)].map((match) => match[1]!.split(":")[0]!);
  for (const parameter of inPath) {
    if (!/^[A-Za-z_]\w*$/.test(parameter)) {
      error("route-path", `{${parameter}} in ${path} does not name a parameter.`, 'Write "/items/{item_id}".');
    } else if (!taken.has(parameter) && !takesAny) {
      error(
        "path-parameter",
        `${path} has {${parameter}}, but ${name}() has no parameter of that name.`,
        `Add ${parameter} to the parameters of ${name}().`,
      );
    }
  }
  const repeated = inPath.find((parameter, i) => inPath.indexOf(parameter) !== i);
  if (repeated !== undefined)
    error("route-path", `${path} has {${repeated}} twice.`, "Give each part of the path its own name.");
  if (path.replace(PARAMETER, "").match(/[{}]/))
    error("route-path", `The braces of ${path} do not match.`, 'Write "/items/{item_id}".');
}
