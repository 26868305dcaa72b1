/**
 * Layers for hosts: GET and HEAD /layers/<digest> with a ticket, whole or one range of it (RFC 9110, 14.2). What is sent is
 * read as the host takes it; one that takes nothing for a while is cut off.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../domain/errors.ts";
import { checkLayerTicket } from "../domain/layer-ticket.ts";
import { LAYER_SEND_MAX_MS, LAYER_SENDS_MAX, UPLOAD_IDLE_MAX_MS } from "../domain/limits.ts";
import type { SharedDeps } from "./context.ts";

interface Part {
  readonly start: number;
  /** The last byte, as in the header. */
  readonly end: number;
}

/** Throws WRONG_SIGNATURE, URL_EXPIRED, LAYER_MISSING, RATE_LIMITED. */
export async function sendLayer(
  deps: SharedDeps,
  request: IncomingMessage,
  response: ServerResponse,
  { digest, ticket }: { readonly digest: string; readonly ticket: string },
): Promise<void> {
  const host = checkLayerTicket(deps.ticketKeys, digest, ticket, deps.clock());
  const size = await deps.artifacts.size(digest);
  if (size === undefined) throw new SvcError("LAYER_MISSING", `The layer ${digest} is not stored on this platform.`);
  const etag = `"${digest}"`;
  response.setHeader("accept-ranges", "bytes").setHeader("etag", etag);
  // It never changes; but only who has a ticket may have it.
  response.setHeader("cache-control", "private, max-age=31536000, immutable");
  const isSame = (request.headers["if-range"] ?? etag) === etag;
  const part = isSame ? partOf(request.headers.range, size) : undefined;
  if (part === "none") {
    response.writeHead(416, { "content-range": `bytes */${size}`, "content-length": 0 }).end();
    return;
  }
  const { start, end } = part ?? { start: 0, end: size - 1 };
  const head = {
    "content-type": "application/octet-stream",
    "content-length": end - start + 1,
    ...(part && { "content-range": `bytes ${start}-${end}/${size}` }),
  };
  if (request.method === "HEAD" || end < start) {
    response.writeHead(part === undefined ? 200 : 206, head).end();
    return;
  }
  const { layerSends } = deps;
  const sends = layerSends.get(host) ?? 0;
  if (sends >= LAYER_SENDS_MAX) {
    throw new SvcError("RATE_LIMITED", `This host fetches ${sends} layers, or parts of them, at once.`, {
      help: "Take one to its end, then ask again.",
    });
  }
  layerSends.set(host, sends + 1);
  response.writeHead(part === undefined ? 200 : 206, head);
  response.setTimeout(deps.config.uploadIdleMs ?? UPLOAD_IDLE_MAX_MS, () => response.destroy());
  const signal = AbortSignal.any([AbortSignal.timeout(LAYER_SEND_MAX_MS), deps.closing]);
  // Once the answer has begun, a failure ends the connection: the host sees that it is not whole, and goes on from there.
  try {
    const bytes = await deps.artifacts.open(digest, { start, end });
    // pipeline() leaves them open if the host is gone already.
    await pipeline(bytes, response, { signal }).finally(() => bytes.destroy());
  } catch {
    response.destroy();
  } finally {
    const left = layerSends.get(host)! - 1;
    if (left > 0) layerSends.set(host, left);
    else layerSends.delete(host);
  }
}

/** Undefined: all of it. "none": not one range, or none that is there. */
function partOf(header: string | undefined, size: number): Part | "none" | undefined {
  if (header === undefined) return undefined;
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header) ?? [];
  if (first === "" && last === "") return "none";
  const start = first === "" ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === "" || last === "" ? size - 1 : Math.min(Number(last), size - 1);
  return start > end ? "none" : { start, end };
}
