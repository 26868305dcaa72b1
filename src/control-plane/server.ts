/**
 * The control plane's HTTP side: POST /graphql, HEAD, PUT and PATCH /layers/<digest>, and GET for hosts, GET /logs, files of
 * volumes below /volumes, GET /events, /metrics, /healthz and /readyz, /hosts and /hosts/join, /device for logins, GET / for
 * programs. Everything else is a 404.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { errorBody, SvcError } from "../domain/errors.ts";
import { WORKER_PORT_HELP } from "../domain/host.ts";
import { GRAPHQL_BODY_MAX_BYTES } from "../domain/limits.ts";
import { VERSION } from "../domain/version.ts";
import { PROTOCOL_OLDEST, PROTOCOL_VERSION } from "../domain/worker-protocol.ts";
import { ClientAddress } from "../lib/client-address.ts";
import { authenticate } from "./authenticate.ts";
import type { ControlPlaneDeps, SharedDeps } from "./context.ts";
import { DeviceLogin } from "./device/answer-device.ts";
import { Events } from "./events.ts";
import { answerHealth, answerHosts, answerMetrics } from "./health.ts";
import { methodNotAllowed, requestUrl, sendError, sendJson } from "./http.ts";
import { LayerClaims } from "./layer-claims.ts";
import { answerLayer } from "./layers.ts";
import { Loads } from "./loads.ts";
import { answerLogs } from "./logs.ts";
import { RefusedTries } from "./refused.ts";
import { answerRest, isRest, restError } from "./rest/rest.ts";
import { answerVolume } from "./volume-files.ts";

/** Answers a request; never rejects. */
export type ControlPlane = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export function createControlPlane(given: ControlPlaneDeps): ControlPlane {
  const deps: SharedDeps = {
    ...given,
    claims: new LayerClaims(given.store),
    refused: new RefusedTries(given),
    loads: new Loads(given),
    layerSends: new Map(),
    addresses: new ClientAddress(given.config.trustedProxies ?? []),
  };
  const device = new DeviceLogin(deps);
  const events = new Events(deps);
  return async (request, response) => {
    try {
      await route(deps, { device, events }, request, response);
    } catch (error) {
      if (!(error instanceof SvcError) && !hasLeft(request))
        deps.log.error("A request to the control plane failed.", error);
      sendError(response, error);
    }
  };
}

/** Its connection broke before its body was read: whoever reads that hears an error, which is none of ours. */
function hasLeft({ destroyed, readableEnded }: IncomingMessage): boolean {
  return destroyed && !readableEnded;
}

async function route(
  deps: SharedDeps,
  { device, events }: { device: DeviceLogin; events: Events },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = requestUrl(request);
  if (isRest(url.pathname)) {
    return answerRest(deps, request, response, url).catch((error) => {
      if (!(error instanceof SvcError) && !hasLeft(request)) deps.log.error("A management request failed.", error);
      restError(response, error);
    });
  }
  if (url.pathname === "/graphql") return graphql(deps, request, response, url);
  if (url.pathname.startsWith("/layers/")) return answerLayer(deps, request, response, url);
  if (url.pathname === "/hosts/join") return answerJoin(deps, request, response);
  if (url.pathname.startsWith("/volumes/")) return answerVolume(deps, request, response, url);
  if (url.pathname === "/logs" || url.pathname.startsWith("/logs/")) return answerLogs(deps, request, response, url);
  if (url.pathname === "/device" || url.pathname.startsWith("/device/")) return device.answer(request, response, url);
  if (url.pathname === "/events") return events.answer(request, response, url);
  if (url.pathname === "/metrics") return answerMetrics(deps, request, response);
  if (url.pathname === "/healthz" || url.pathname === "/readyz") {
    return answerHealth(deps, request, response, url.pathname);
  }
  if (url.pathname === "/hosts") return answerHosts(deps, request, response, url);
  if (url.pathname !== "/") {
    throw new SvcError("NOT_FOUND", `There is nothing at ${request.method} ${url.pathname}.`);
  }
  if (request.method !== "GET" && request.method !== "HEAD") return methodNotAllowed(response, "/", "GET, HEAD");
  sendJson(response, 200, { status: "ok", service: "svc platform", version: VERSION });
}

/** Where the agent of a machine that joins has to dial. Nothing of it is secret: what it finds there proves itself by its fingerprint, which it believes over HTTPS alone. */
function answerJoin(deps: SharedDeps, request: IncomingMessage, response: ServerResponse): void {
  const taken = deps.workerPort();
  if (request.method !== "GET" && request.method !== "HEAD") {
    methodNotAllowed(response, "/hosts/join", "GET, HEAD");
  } else if (taken === undefined) {
    throw new SvcError("NOT_FOUND", "No machine can join this platform: it has no port for that.", {
      help: WORKER_PORT_HELP,
    });
  } else {
    response.setHeader("cache-control", "no-store");
    const { port, host, fingerprint } = taken;
    const spoken = { protocol: PROTOCOL_VERSION, oldest: PROTOCOL_OLDEST };
    sendJson(response, 200, { ...spoken, port, host, version: VERSION, fingerprint });
  }
}

async function graphql(deps: SharedDeps, request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
  if (request.method !== "POST") return methodNotAllowed(response, "/graphql", "POST");
  if (Number(request.headers["content-length"] ?? 0) > GRAPHQL_BODY_MAX_BYTES) {
    throw new SvcError("TOO_LARGE", `The body has more than ${GRAPHQL_BODY_MAX_BYTES} bytes.`);
  }
  let principal: Awaited<ReturnType<typeof authenticate>>;
  try {
    principal = await authenticate(deps.keys, request.headers.authorization, url.searchParams);
  } catch (error) {
    deps.refused.note(error, { who: undefined, address: deps.addresses.of(request), what: "the management API" });
    return refuse(response, error);
  }
  const address = deps.addresses.of(request);
  // The Python package compares it with its own (python/src/svc/_calling/versions.py).
  response.setHeader("X-Svc-Version", VERSION);
  // The key stops here: nothing behind this line sees the URL it came with.
  request.url = "/graphql";
  // A platform that only takes calls loads none of it.
  const { answerGraphQL } = await import("./answer-graphql.ts");
  await answerGraphQL(deps, request, response, { principal, address });
}

/** The error body and GraphQL's own form in one, so that both kinds of client understand it. */
function refuse(response: ServerResponse, error: unknown): void {
  if (!(error instanceof SvcError)) throw error;
  const body = errorBody(error);
  response.setHeader("www-authenticate", "Bearer");
  sendJson(response, body.status, { ...body, errors: [{ message: body.detail, extensions: { code: body.code } }] });
}
