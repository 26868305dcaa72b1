/** A call of a route of a load-balanced endpoint; its answer is printed as it comes. */
import { Endpoint } from "../../client/endpoint.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { textOf } from "../../client/server-sent-events.ts";
import { timingText } from "../../client/timing-text.ts";
import { SvcError } from "../../domain/errors.ts";
import type { Connection } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { type CallInput, callInput, namedArguments } from "./input.ts";
import { showLogs } from "./log-lines.ts";
import { showResult } from "./result.ts";

interface RouteFlags {
  readonly route?: string;
  readonly logs?: boolean;
  readonly timing?: boolean;
}

export async function callRoute(
  context: CliContext,
  { controlPlane, apiKey }: Connection,
  endpoint: EndpointRecord,
  words: readonly string[],
  flags: RouteFlags,
): Promise<void> {
  const { terminal } = context;
  const route = chosen(endpoint, flags.route);
  const request = requestOf(route, await callInput(words, parametersOf(endpoint, route)));
  const logs = flags.logs ? await showLogs(terminal, controlPlane.platform, endpoint.id) : undefined;
  const endWaiting = terminal.waiting(`Waiting for ${endpoint.name} to answer ${route.method} ${request.path}`);
  let worker: string | undefined;
  try {
    const client = new Endpoint({ url: endpoint.url, apiKey });
    const response = await client.request(route.method, request.path, request);
    worker = response.headers.get("x-svc-worker-id") ?? undefined;
    await show(context, endpoint, route, response);
    const timing = response.headers.get("server-timing");
    if (flags.timing && timing !== null) terminal.note(`${timingText(timing)} (ms)`);
  } finally {
    endWaiting();
    await logs?.end(worker);
  }
}

interface Route {
  readonly method: string;
  readonly path: string;
}

/** Throws USAGE with the routes there are. */
function chosen({ name, routes }: EndpointRecord, given: string | undefined): Route {
  const callable = routes.filter((route) => !route.startsWith("WEBSOCKET "));
  const text = given ?? (callable.length === 1 ? callable[0]! : undefined);
  const list = callable.map((route) => `--route "${route}"`).join("\n");
  if (text === undefined)
    throw new SvcError("USAGE", `${name} has several routes.`, { help: `Give one of them:\n${list}` });
  const [, method, path] = /^(?:([A-Za-z]+)\s+)?(\/\S*)$/.exec(text.trim()) ?? [];
  if (path === undefined) {
    throw new SvcError("USAGE", `--route "${text}" is no method and path.`, { help: `${name} has:\n${list}` });
  }
  const declared = callable.find((route) => route.endsWith(` ${path}`))?.split(" ")[0];
  const own = (method ?? declared ?? "GET").toUpperCase();
  return { method: own === "ANY" ? "GET" : own, path };
}

function parametersOf({ routes, functions }: EndpointRecord, { method, path }: Route) {
  const at = routes.indexOf(`${method} ${path}`);
  return (functions.length === routes.length && functions[at]?.parameters) || [];
}

/** Values for `{name}` of the path stand in it; the others are the body, or the query where there is no body. */
function requestOf({ method, path }: Route, input: CallInput | undefined) {
  if (input !== undefined && "bytes" in input) return { path, body: input.bytes };
  const names = [...path.matchAll(/\{(\w+)[^}]*\}/g)].map((match) => match[1]!);
  const bodyless = method === "GET" || method === "HEAD" || method === "DELETE";
  if (names.length === 0 && !bodyless) return { path, body: input?.json };
  const values = { ...namedArguments(input) };
  const filled = path.replace(/\{(\w+)(:path)?[^}]*\}/g, (whole, name: string, deep?: string) => {
    if (!Object.hasOwn(values, name))
      throw new SvcError("USAGE", `The route's ${whole} has no value.`, { help: `Give ${name}=VALUE.` });
    const text = textOfValue(values[name]);
    delete values[name];
    return deep === undefined ? encodeURIComponent(text) : text.split("/").map(encodeURIComponent).join("/");
  });
  if (!bodyless) return { path: filled, body: Object.keys(values).length === 0 ? undefined : values };
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, textOfValue(each)]),
  );
  const query = new URLSearchParams(pairs).toString();
  return { path: query === "" ? filled : `${filled}${filled.includes("?") ? "&" : "?"}${query}` };
}

function textOfValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

async function show(context: CliContext, endpoint: EndpointRecord, route: Route, response: Response): Promise<void> {
  const { terminal } = context;
  const type = response.headers.get("content-type") ?? "";
  if (!response.ok) {
    context.answerNo();
    const text = await response.text();
    terminal.note(
      `${terminal.errColors.red(`${endpoint.name} answered ${response.status}`)} to ${route.method} ${route.path}`,
    );
    if (text !== "") terminal.note(text);
    if (response.status === 500) terminal.note(`svc logs ${endpoint.name} has the traceback.`);
    return;
  }
  if (/^application\/json\b/.test(type)) {
    const text = await response.text();
    return text === "" ? undefined : showResult(terminal, JSON.parse(text), "whole");
  }
  if (/^text\/|json|xml|javascript/.test(type)) {
    let last = "\n";
    for await (const text of textOf(response.body)) {
      terminal.write(text);
      last = text.at(-1) ?? last;
    }
    return last === "\n" ? undefined : terminal.out();
  }
  let hidden = 0;
  for await (const chunk of response.body ?? []) if (!terminal.bytes(chunk)) hidden += chunk.length;
  if (hidden > 0) terminal.note(`${hidden} bytes of ${type || "no stated type"}: send them to a file with > FILE.`);
}
