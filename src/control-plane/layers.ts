/**
 * Layers: for hosts that have a ticket (send-layer.ts), and their upload, resumable as the IETF draft "Resumable Uploads for HTTP" has it; the digest names the upload.
 *
 *   HEAD   200, all of it is there · 204, `Upload-Offset` bytes of it · 404
 *   PUT    the layer from its first byte
 *   PATCH  the rest of it, from `Upload-Offset` on; 409 with the right offset when that is another
 */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { presentedSecret } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { isLayerTicket } from "../domain/layer-ticket.ts";
import { ARTIFACT_MAX_BYTES } from "../domain/limits.ts";
import { authenticate, requireScope } from "./authenticate.ts";
import type { SharedDeps } from "./context.ts";
import { bodyOf, endWhenIdle, methodNotAllowed, sendError, sendJson, UPLOAD_OFFSET } from "./http.ts";
import { sendLayer } from "./send-layer.ts";

const DIGEST = /^[0-9a-f]{64}$/;

export async function answerLayer(
  deps: SharedDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const digest = url.pathname.slice("/layers/".length);
  const ticket = presentedSecret(request.headers.authorization) ?? "";
  const isHost = isLayerTicket(ticket);
  if (isHost) {
    requireDigest(digest);
    if (request.method === "GET" || request.method === "HEAD")
      return sendLayer(deps, request, response, { digest, ticket });
    return methodNotAllowed(response, "/layers/<digest> with a ticket", "GET, HEAD");
  }
  const principal = await authenticate(deps.keys, request.headers.authorization);
  requireScope({ principal }, "deploy");
  requireDigest(digest);
  const known = (await deps.artifacts.has(digest)) && (await deps.claims.usable(principal, [digest])).has(digest);
  if (request.method === "HEAD") return tellOffset(deps, response, digest, known);
  if (request.method === "PUT" || request.method === "PATCH") {
    const offset = request.method === "PUT" ? 0 : offsetOf(request);
    if (!(await store(deps, request, digest, { offset, known, response }))) return;
    deps.claims.sent(principal, digest);
    return sendJson(response, 200, { digest, size: await deps.artifacts.size(digest) });
  }
  methodNotAllowed(response, "/layers/<digest>", "HEAD, PUT, PATCH");
}

function requireDigest(digest: string): void {
  if (DIGEST.test(digest)) return;
  throw new SvcError("BAD_INPUT", `"${digest}" does not name a layer.`, { help: "PUT /layers/<SHA-256 in hex>" });
}

async function tellOffset(deps: SharedDeps, response: ServerResponse, digest: string, known: boolean): Promise<void> {
  response.setHeader("cache-control", "no-store");
  const size = known ? await deps.artifacts.size(digest) : undefined;
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
async function setOffset(deps: SharedDeps, response: ServerResponse, digest: string): Promise<boolean> {
  const arrived = await deps.artifacts.partialSize(digest);
  if (arrived === undefined) return false;
  response.setHeader("upload-offset", arrived).setHeader("upload-complete", "?0");
  return true;
}

function offsetOf({ headers }: IncomingMessage): number {
  const offset = String(headers["upload-offset"] ?? "");
  if (!UPLOAD_OFFSET.test(offset) || headers["upload-complete"] === "?0") {
    throw new SvcError("BAD_INPUT", "A PATCH of a layer brings all the rest of it.", {
      help: "Give Upload-Offset: <bytes that are there, from HEAD> and Upload-Complete: ?1.",
    });
  }
  return Number(offset);
}

interface Arrival {
  readonly offset: number;
  /** The layer is stored, and the caller may use it. */
  readonly known: boolean;
  readonly response: ServerResponse;
}

/** Resolves false when the upload broke off. */
async function store(
  deps: SharedDeps,
  request: IncomingMessage,
  digest: string,
  { offset, known, response }: Arrival,
): Promise<boolean> {
  const maxBytes = deps.config.artifactMaxBytes ?? ARTIFACT_MAX_BYTES;
  if (offset + Number(request.headers["content-length"] ?? 0) > maxBytes) {
    throw new SvcError("TOO_LARGE", `A layer has at most ${maxBytes} bytes.`, { help: "Use --exclude." });
  }
  endWhenIdle(request, response, deps.config.uploadIdleMs);
  try {
    // The bytes of a layer that is there already are read and dropped: a caller that is cut off cannot see the answer.
    if (known) request.resume();
    else if (await deps.artifacts.has(digest)) await requireBytes(request, digest, offset);
    else await deps.artifacts.put(digest, bodyOf(request), maxBytes, offset);
  } catch (error) {
    // It broke off: what arrived is kept, and nobody is there to be answered.
    if (request.destroyed && !request.complete) return false;
    if (error instanceof SvcError && error.code === "CONFLICT") await setOffset(deps, response, digest);
    throw error;
  }
  return true;
}

/** The layer is there, from somebody else: the caller proves that it has the bytes too. Throws LAYER_CORRUPT, CONFLICT. */
async function requireBytes(request: IncomingMessage, digest: string, offset: number): Promise<void> {
  if (offset > 0) throw new SvcError("CONFLICT", "The layer must be sent from its first byte.", { help: "Use PUT." });
  const hash = createHash("sha256");
  for await (const chunk of bodyOf(request) as AsyncIterable<Buffer>) hash.update(chunk);
  if (hash.digest("hex") !== digest) throw new SvcError("LAYER_CORRUPT", `The bytes are not those of layer ${digest}.`);
}
