/**
 * Upload of layers, resumable as the IETF draft "Resumable Uploads for HTTP" has it; the digest names the upload.
 *
 *   HEAD   200, all of it is there · 204, `Upload-Offset` bytes of it · 404
 *   PUT    the layer from its first byte
 *   PATCH  the rest of it, from `Upload-Offset` on; 409 with the right offset when that is another
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { finished, PassThrough } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import { ARTIFACT_MAX_BYTES, UPLOAD_IDLE_MAX_MS } from "../domain/limits.ts";
import { methodNotAllowed, sendError, sendJson } from "./answer.ts";
import { authenticate, requireScope } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";

const DIGEST = /^[0-9a-f]{64}$/;
const OFFSET = /^\d{1,15}$/;

export async function answerLayer(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const principal = await authenticate(deps.keys, request.headers.authorization);
  requireScope({ principal }, "deploy");
  const digest = url.pathname.slice("/layers/".length);
  if (!DIGEST.test(digest)) {
    throw new SvcError("BAD_INPUT", `"${digest}" does not name a layer.`, { help: "PUT /layers/<SHA-256 in hex>" });
  }
  if (request.method === "HEAD") return tellOffset(deps, response, digest);
  if (request.method === "PUT") return store(deps, request, response, digest, 0);
  if (request.method === "PATCH") return store(deps, request, response, digest, offsetOf(request));
  methodNotAllowed(response, "/layers/<digest>", "HEAD, PUT, PATCH");
}

async function tellOffset(deps: ControlPlaneDeps, response: ServerResponse, digest: string): Promise<void> {
  response.setHeader("cache-control", "no-store");
  const size = await deps.artifacts.size(digest);
  if (size !== undefined) {
    response.writeHead(200, { "content-length": size, "upload-offset": size, "upload-complete": "?1" }).end();
    return;
  }
  if (!(await setOffset(deps, response, digest))) {
    return sendError(response, new SvcError("NOT_FOUND", `There is no layer ${digest}.`));
  }
  response.writeHead(204).end();
}

/** Resolves false when nothing of the layer is there. */
async function setOffset(deps: ControlPlaneDeps, response: ServerResponse, digest: string): Promise<boolean> {
  const arrived = await deps.artifacts.partialSize(digest);
  if (arrived === undefined) return false;
  response.setHeader("upload-offset", arrived).setHeader("upload-complete", "?0");
  return true;
}

function offsetOf({ headers }: IncomingMessage): number {
  const offset = String(headers["upload-offset"] ?? "");
  if (!OFFSET.test(offset) || headers["upload-complete"] === "?0") {
    throw new SvcError("BAD_INPUT", "A PATCH of a layer brings all the rest of it.", {
      help: "Give Upload-Offset: <bytes that are there, from HEAD> and Upload-Complete: ?1.",
    });
  }
  return Number(offset);
}

async function store(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  digest: string,
  offset: number,
): Promise<void> {
  const maxBytes = deps.config.artifactMaxBytes ?? ARTIFACT_MAX_BYTES;
  if (offset + Number(request.headers["content-length"] ?? 0) > maxBytes) {
    throw new SvcError("TOO_LARGE", `A layer has at most ${maxBytes} bytes.`, { help: "Use --exclude." });
  }
  // A sender that is gone without a word would keep the others out; one that waits for us is not gone.
  request.setTimeout(deps.config.uploadIdleMs ?? UPLOAD_IDLE_MAX_MS, () => {
    if (!request.complete && !request.isPaused()) request.destroy();
  });
  try {
    // The bytes of a layer that is there already are read and dropped: a caller that is cut off cannot see the answer.
    if (await deps.artifacts.has(digest)) request.resume();
    else await deps.artifacts.put(digest, bodyOf(request), maxBytes, offset);
  } catch (error) {
    // It broke off: what arrived is kept, and nobody is there to be answered.
    if (request.destroyed && !request.complete) return;
    if (error instanceof SvcError && error.code === "CONFLICT") await setOffset(deps, response, digest);
    throw error;
  }
  sendJson(response, 200, { digest, size: await deps.artifacts.size(digest) });
}

/** The body as a stream of its own: whoever gives it up does not close the connection the answer needs. */
function bodyOf(request: IncomingMessage): PassThrough {
  const body = new PassThrough();
  finished(request, { writable: false }, (error) => {
    if (error) body.destroy(error);
  });
  return request.pipe(body);
}
