/**
 * The management API as REST, for clients of the same family: /rest/v1 and /v1 in its first form, /v2 in its second. A route is a
 * thin layer over the resolver that GraphQL has for the same: authenticate → scope → body → resolver → form.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../../domain/api-key.ts";
import { errorBody, SvcError } from "../../domain/errors.ts";
import { REST_BODY_MAX_BYTES } from "../../domain/limits.ts";
import { authenticate, requireScope, requireUnbound } from "../authenticate.ts";
import type { RequestContext, SharedDeps } from "../context.ts";
import { decodedPart, methodNotAllowed, readJsonObject, refuse, sendJson } from "../http.ts";
import { createRequestLoader } from "../request-loader.ts";
import type { Route } from "./route.ts";
import { V1_ROUTES } from "./v1.ts";
import { V2_ROUTES } from "./v2.ts";

const APIS: readonly (readonly [prefix: string, routes: readonly Route[]])[] = [
  ["/rest/v1/", V1_ROUTES],
  ["/v1/", V1_ROUTES],
  ["/v2/", V2_ROUTES],
];

/** Whether the path is below one of the REST roots. */
export function isRest(pathname: string): boolean {
  return APIS.some(([prefix]) => pathname.startsWith(prefix));
}

/** Rejects with what is to be said in place of an answer. */
export async function answerRest(
  deps: SharedDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const address = deps.addresses.of(request);
  const what = `${request.method} ${url.pathname.slice(0, 80)}`;
  let principal: Principal | undefined;
  try {
    principal = await authenticate(deps.keys, request.headers.authorization);
    await answer(deps, request, response, url, { principal, address });
  } catch (error) {
    deps.refused.note(error, { who: principal, address, what });
    throw error;
  }
}

async function answer(
  deps: SharedDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
  who: Pick<RequestContext, "principal" | "address">,
): Promise<void> {
  const [prefix, routes] = APIS.find(([start]) => url.pathname.startsWith(start))!;
  const parts = url.pathname.slice(prefix.length).replace(/\/$/, "").split("/").map(decodedPart);
  const found = routes.filter(({ path }) => fits(path, parts));
  if (found.length === 0) throw nowhere(url.pathname, parts[0] ?? "", routes);
  const method = request.method === "HEAD" ? "GET" : request.method;
  const route = found.find((one) => one.method === method);
  if (route === undefined) {
    return methodNotAllowed(response, url.pathname.slice(0, 200), found.map((one) => one.method).join(", "));
  }
  const context = { ...deps, ...who, loader: createRequestLoader(deps.store) };
  requireScope(context, route.method === "GET" ? "read" : "deploy");
  if (route.unbound) requireUnbound(context);
  const body =
    route.method === "POST" || route.method === "PATCH" ? await readJsonObject(request, REST_BODY_MAX_BYTES) : {};
  const ids = parts.filter((_part, index) => route.path[index] === ":id");
  const value = await route.answer({ id: ids[0] ?? "", body, query: url.searchParams, context });
  const status = prefix === "/v2/" && route.method === "POST" ? 201 : 200;
  if (value !== undefined) return sendJson(response, status, value);
  response.writeHead(204);
  response.end();
}

/** The platform's error body, with the one field that clients of the first form read. */
export function restError(response: ServerResponse, error: unknown): void {
  const body = errorBody(error);
  refuse(response, body.status, { ...body, message: body.detail });
}

function fits(path: readonly string[], parts: readonly string[]): boolean {
  return path.length === parts.length && path.every((part, index) => part === ":id" || part === parts[index]);
}

const ELSEWHERE: Readonly<Record<string, string>> = {
  pods: "This platform runs endpoints and no machines of other kinds.",
  clusters: "This platform runs endpoints and no clusters.",
  billing: "One's own machines have no prices.",
  flash: "Calls by name are POST /v2/flash/run and /v2/flash/runsync.",
};

function nowhere(pathname: string, noun: string, routes: readonly Route[]): SvcError {
  const nouns = [...new Set(routes.map(({ path }) => `/${path[0]}`))].join(", ");
  return new SvcError("NOT_FOUND", `There is nothing at ${pathname.slice(0, 200)}.`, {
    help: `${ELSEWHERE[noun] ?? ""} There are ${nouns}; docs/reference/rest.md has the routes.`.trim(),
  });
}
