/**
 * A call of each function or route that works when it is pasted into a shell. Its values come from the parameters'
 * defaults and annotations; the key is taken from PLATFORM_API_KEY, so none is ever printed.
 */

import { exampleValue } from "../build/example-value.ts";
import type { EndpointRecord } from "../client/records.ts";
import { firstCall, type ManifestFunction, type ManifestParameter } from "../domain/manifest.ts";
import { isPublic } from "../domain/public-routes.ts";

export interface ExampleCall {
  /** `POST /analyze`, or `POST /runsync` of a queue-based endpoint. */
  readonly route: string;
  readonly url: string;
  /** A curl command. */
  readonly command: string;
}

/** One call for each route in the order of the code, or one `/runsync` call. Open routes are called without a key. */
export function exampleCalls(
  endpoint: Pick<EndpointRecord, "kind" | "url" | "functions" | "routes"> & { readonly publicRoutes?: string },
  functionOfRoute: (route: string) => string | undefined,
): ExampleCall[] {
  if (endpoint.kind === "queue") return [queueCall(endpoint.url, endpoint.functions[0])];
  // A shell has no command for a WebSocket.
  const routes = endpoint.routes.filter((route) => !route.startsWith("WEBSOCKET "));
  return routes.map((route) => {
    const name = functionOfRoute(route);
    const call = routeCall(
      endpoint.url,
      route,
      endpoint.functions.find((fn) => fn.name === name),
    );
    return isPublic(endpoint.publicRoutes ?? "", route) ? withoutKey(call) : call;
  });
}

/** As exampleCalls without the manifest at hand: a function stands for a route where each has its own. */
export function callsOfRecord(endpoint: EndpointRecord): ExampleCall[] {
  const oneEach = endpoint.functions.length === endpoint.routes.length;
  return exampleCalls(endpoint, (route) => {
    return oneEach ? endpoint.functions[endpoint.routes.indexOf(route)]?.name : undefined;
  });
}

/** The call that tells most about an endpoint: one with a body, if there is one. */
export function bestCall(calls: readonly ExampleCall[]): ExampleCall | undefined {
  return calls.find((call) => call.route.startsWith("POST ")) ?? calls[0];
}

/** The same call of an endpoint that asks for no key. */
export function withoutKey(call: ExampleCall): ExampleCall {
  return { ...call, command: call.command.replace(` ${KEY}`, "") };
}

function queueCall(url: string, fn: ManifestFunction | undefined): ExampleCall {
  const { parameters, method } = fn === undefined ? { parameters: [] } : firstCall(fn);
  const body = { input: values(parameters), method };
  const target = `${url}/runsync`;
  return { route: "POST /runsync", url: target, command: curl("POST", target, body) };
}

function routeCall(baseUrl: string, route: string, fn: ManifestFunction | undefined): ExampleCall {
  const [given = "GET", path = "/"] = route.split(" ");
  const method = given === "ANY" ? "GET" : given; // a whole application
  const parameters = fn?.parameters ?? [];
  const inPath = new Set([...path.matchAll(/\{(\w+)[^}]*\}/g)].map((match) => match[1]!));
  const filled = path.replace(/\{(\w+)[^}]*\}/g, (_, name: string) => pathValue(parameters, name));
  const rest = parameters.filter((parameter) => !inPath.has(parameter.name));
  const hasBody = method !== "GET" && method !== "HEAD" && method !== "DELETE";
  const url = `${baseUrl}${filled}${hasBody ? "" : query(rest)}`;
  if (!hasBody) return { route, url, command: curl(method, url) };
  if (rest.some((parameter) => /\bbytes\b/.test(parameter.annotation))) {
    return { route, url, command: curlForm(method, url, values(rest)) };
  }
  return { route, url, command: curl(method, url, values(rest)) };
}

/** What a caller can name: no *args, no **kwargs, and nothing that is better left to its default. */
function values(parameters: readonly ManifestParameter[]): Record<string, unknown> {
  const pairs = parameters
    .filter((parameter) => /^\w+$/.test(parameter.name) && parameter.name !== "self")
    .map((parameter) => [parameter.name, exampleValue(parameter)] as const);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
}

function pathValue(parameters: readonly ManifestParameter[], name: string): string {
  const parameter = parameters.find((candidate) => candidate.name === name);
  const value = parameter && exampleValue({ ...parameter, default: null });
  return encodeURIComponent(typeof value === "string" || typeof value === "number" ? String(value) : "1");
}

function query(parameters: readonly ManifestParameter[]): string {
  const required = parameters.filter((parameter) => parameter.default === null);
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(values(required))) pairs.append(name, String(value));
  return pairs.size === 0 ? "" : `?${pairs}`;
}

const KEY = '-H "Authorization: Bearer $PLATFORM_API_KEY"';

function curl(method: string, url: string, body?: object): string {
  const verb = method === "GET" || (method === "POST" && body !== undefined) ? "" : `-X ${method} `;
  const start = `curl ${verb}${quoted(url)} ${KEY}`;
  return body === undefined ? start : `${start} -H "Content-Type: application/json" -d ${quoted(JSON.stringify(body))}`;
}

function curlForm(method: string, url: string, fields: Record<string, unknown>): string {
  const parts = Object.entries(fields).map(([name, value]) => `-F ${quoted(`${name}=${String(value)}`)}`);
  return `curl ${method === "POST" ? "" : `-X ${method} `}${quoted(url)} ${KEY} ${parts.join(" ")}`;
}

/** For a POSIX shell: nothing between single quotes has a meaning, and a single quote ends them. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
