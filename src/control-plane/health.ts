/** What whoever watches the platform asks, most of it without a key: whether its process lives, whether it takes work, its metrics. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import { BY_NAME } from "../domain/names.ts";
import { authenticate, requireScope, requireUnbound } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";
import { methodNotAllowed, sendJson } from "./http.ts";

export async function answerHealth(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD") return methodNotAllowed(response, path, "GET, HEAD");
  response.setHeader("cache-control", "no-store");
  if (path === "/healthz") return sendJson(response, 200, { status: "ok" });
  const reasons = await deps.notReady();
  const degraded = deps.degraded?.() ?? [];
  if (reasons.length === 0) sendJson(response, 200, { status: "ok", ...(degraded.length > 0 && { degraded }) });
  else sendJson(response, 503, { status: "not ready", reasons });
}

/** GET /hosts?domain=HOST, as proxies ask that fetch a certificate for a host when it is first asked for: 200, or 404 for a host of nobody. */
export async function answerHosts(
  { store, config }: Pick<ControlPlaneDeps, "store" | "config">,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD") return methodNotAllowed(response, "/hosts", "GET, HEAD");
  const domain = config.domain.toLowerCase();
  const host = (url.searchParams.get("domain") ?? "").toLowerCase();
  const id = host.endsWith(`.${domain}`) ? host.slice(0, -domain.length - 1) : undefined;
  const ours = host === domain || id === BY_NAME || (id && (await store.endpoints.find(id))?.kind === "load-balanced");
  response.setHeader("cache-control", "no-store");
  if (domain !== "" && ours) return sendJson(response, 200, { status: "ok" });
  throw new SvcError("NOT_FOUND", "No endpoint of this platform has that host.");
}

/** Throws NOT_FOUND, MISSING_KEY, WRONG_KEY, FORBIDDEN. */
export async function answerMetrics(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { access, read } = deps.metrics;
  if (access === "off") {
    throw new SvcError("NOT_FOUND", "The platform's metrics are turned off.", {
      help: "Start it with SVC_METRICS=key.",
    });
  }
  if (request.method !== "GET" && request.method !== "HEAD") return methodNotAllowed(response, "/metrics", "GET, HEAD");
  if (access === "key") {
    const principal = await authenticate(deps.keys, request.headers.authorization);
    requireScope({ principal }, "read");
    requireUnbound({ principal });
  }
  const { contentType, text } = await read();
  const body = Buffer.from(text);
  response.writeHead(200, { "content-type": contentType, "content-length": body.length });
  response.end(request.method === "HEAD" ? undefined : body);
}
