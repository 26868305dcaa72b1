/** `PUT /layers/<digest>` streams a layer in, `HEAD` tells whether it is there. Storing one twice is fine. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import { ARTIFACT_MAX_BYTES } from "../domain/limits.ts";
import { methodNotAllowed, sendError, sendJson } from "./answer.ts";
import { authenticate, requireScope } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";

const DIGEST = /^[0-9a-f]{64}$/;

export async function answerLayer(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const principal = await authenticate(deps.keys, url.searchParams, request.headers.authorization);
  requireScope({ principal }, "deploy");
  const digest = url.pathname.slice("/layers/".length);
  if (!DIGEST.test(digest)) {
    throw new SvcError("BAD_INPUT", `"${digest}" does not name a layer.`, { help: "PUT /layers/<SHA-256 in hex>" });
  }
  if (request.method === "HEAD") return tellSize(deps, response, digest);
  if (request.method === "PUT") return store(deps, request, response, digest);
  methodNotAllowed(response, "/layers/<digest>", "HEAD, PUT");
}

async function tellSize(deps: ControlPlaneDeps, response: ServerResponse, digest: string): Promise<void> {
  const size = await deps.artifacts.size(digest);
  if (size === undefined) return sendError(response, new SvcError("NOT_FOUND", `There is no layer ${digest}.`));
  response.writeHead(200, { "content-length": size }).end();
}

async function store(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  digest: string,
): Promise<void> {
  const maxBytes = deps.config.artifactMaxBytes ?? ARTIFACT_MAX_BYTES;
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) {
    throw new SvcError("TOO_LARGE", `A layer has at most ${maxBytes} bytes.`, { help: "Use --exclude." });
  }
  // The bytes of a layer that is there already are read and dropped: a caller that is cut off cannot see the answer.
  if (await deps.artifacts.has(digest)) request.resume();
  else await deps.artifacts.put(digest, bodyOf(request), maxBytes);
  sendJson(response, 200, { digest, size: await deps.artifacts.size(digest) });
}

/** The body as a stream of its own: whoever gives it up does not close the connection the answer needs. */
function bodyOf(request: IncomingMessage): PassThrough {
  const body = new PassThrough();
  request.once("error", (error) => body.destroy(error));
  return request.pipe(body);
}
