/**
 * Cross-origin calls from browser pages, per endpoint. A preflight carries no key (browsers send none), so it is
 * answered here, for endpoints with a `cors` setting only; every answer to an allowed origin says so, errors too.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { originsOf } from "../domain/cors.ts";
import { CORS_PREFLIGHT_MAX_AGE_S } from "../domain/limits.ts";
import type { CalledEndpoint } from "../store/store.ts";

/** What a page may read of an answer beside the plain headers. */
const EXPOSED = "Server-Timing, X-Svc-Worker-Id, X-Request-Id, Retry-After";
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/** Answers a preflight that is allowed, and then says so; else notes what the answer to an allowed page must carry. */
export function answerForPage(
  endpoint: Pick<CalledEndpoint, "cors">,
  req: IncomingMessage,
  res: ServerResponse,
): boolean {
  if (endpoint.cors === "") return false;
  if (endpoint.cors !== "*") res.setHeader("Vary", "Origin");
  const origin = allowedOrigin(endpoint.cors, req.headers.origin ?? "");
  if (origin === undefined) return false;
  res.setHeader("Access-Control-Allow-Origin", origin);
  res.setHeader("Access-Control-Expose-Headers", EXPOSED);
  if (!isPreflight(req)) return false;
  res.writeHead(204, {
    "Access-Control-Allow-Methods": METHODS,
    "Access-Control-Allow-Headers":
      req.headers["access-control-request-headers"] ?? "Authorization, Content-Type, Idempotency-Key",
    "Access-Control-Max-Age": CORS_PREFLIGHT_MAX_AGE_S,
  });
  res.end();
  return true;
}

function isPreflight({ method, headers }: IncomingMessage): boolean {
  const asks = headers["access-control-request-method"] !== undefined;
  return method === "OPTIONS" && asks && headers.authorization === undefined;
}

/** "*" or the caller's origin; undefined when it is not allowed. */
function allowedOrigin(cors: string, origin: string): string | undefined {
  if (cors === "*") return "*";
  return originsOf(cors).includes(origin.toLowerCase()) ? origin : undefined;
}
