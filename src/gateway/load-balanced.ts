/**
 * A call of a load-balanced endpoint: forwarded to a worker as it came, without the platform's key and without what
 * belongs to one connection only. Both bodies stream.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../domain/errors.ts";
import { INLINE_BODY_MAX_BYTES, LOAD_BALANCED_BODY_MAX_BYTES } from "../domain/limits.ts";
import type { LoadBalancedResponse } from "../domain/request.ts";
import { freeBytes } from "../lib/free-bytes.ts";
import { declaredBytes, hasBody } from "../lib/request-body.ts";
import { drain, inviteBody, limitedStream, readBody, tooLarge } from "./body.ts";
import type { Call, GatewayContext } from "./context.ts";
import { forwardedHeaders, responseHeaders } from "./forwarded-headers.ts";
import type { LargeAnswers } from "./large-answers.ts";
import { endWith } from "./respond.ts";

const EMPTY = Buffer.alloc(0);
/** Smaller ones cost less to collect. */
const LARGE_PART_BYTES = 16 * 1024;
const UNFREED_MAX_PARTS = 64;

export async function loadBalanced(call: Call, gateway: GatewayContext): Promise<void> {
  const { req, res } = call;
  const body = await requestBody(call, gateway);
  const departure = gateway.callers.follow(req, res);
  let response: LoadBalancedResponse;
  const id = gateway.newId();
  const method = req.method ?? "GET";
  const secret = call.open === undefined ? call.secret : undefined;
  const given = forwardedHeaders(req.rawHeaders, secret, gateway.addresses.chain(req));
  call.trace = gateway.traces?.request(call.endpoint, method, given);
  try {
    response = await gateway.forwarder.forward({
      id,
      endpointId: call.endpoint.id,
      method,
      path: call.path,
      query: call.query,
      headers: call.trace?.headers ?? given,
      body,
      timeoutMs: call.endpoint.requestTimeoutMs || gateway.settings.requestTimeoutMs,
      publicRoutes: call.open?.publicRoutes,
      departure,
    });
  } catch (error) {
    // A body cut off here fails in the forwarder's hands; the caller should hear the reason, not the consequence.
    if (!Buffer.isBuffer(body) && body.errored instanceof SvcError) throw body.errored;
    if (gateway.closing && departure.hasGone) throw new SvcError("SHUTTING_DOWN", "The platform is shutting down.");
    throw error;
  }
  call.served = { id, workerId: response.workerId, timing: response.timing };
  // A page that was opened by its signed URL tells it to nobody.
  if (call.open?.signedQuery !== undefined && !res.headersSent) res.setHeader("Referrer-Policy", "no-referrer");
  const sent = sendResponse(call, response, gateway.answers);
  if (sent !== undefined) await sent;
  if (!Buffer.isBuffer(body) && !req.complete) passOverRest(req, body);
}

/** Whole when it is known to be short, else a stream that ends at the limit. */
function requestBody({ req, res }: Call, gateway: GatewayContext): Buffer | Transform | Promise<Buffer> {
  if (!hasBody(req)) return EMPTY;
  const declared = declaredBytes(req);
  if (declared !== undefined && declared > LOAD_BALANCED_BODY_MAX_BYTES) throw tooLarge(LOAD_BALANCED_BODY_MAX_BYTES);
  if (declared !== undefined && declared <= INLINE_BODY_MAX_BYTES) {
    return readBody(req, res, INLINE_BODY_MAX_BYTES, gateway.bodies).then((body) => {
      gateway.bodies.give(body.length);
      return body;
    });
  }
  inviteBody(req, res);
  return limitedStream(req, LOAD_BALANCED_BODY_MAX_BYTES);
}

/** Resolves when a stream has ended. */
function sendResponse(
  { req, res, hosted }: Call,
  response: LoadBalancedResponse,
  answers: LargeAnswers,
): Promise<void> | undefined {
  const { body } = response;
  const whole = Buffer.isBuffer(body);
  let headers: string[];
  try {
    headers = responseHeaders(response, req.method === "HEAD", hosted);
    if (whole && body.length > LOAD_BALANCED_BODY_MAX_BYTES) {
      throw new SvcError(
        "BAD_RESPONSE",
        `The function's response is larger than ${LOAD_BALANCED_BODY_MAX_BYTES} bytes.`,
        {
          help: "Stream it, or answer with a link.",
        },
      );
    }
  } catch (error) {
    if (!whole) body.destroy();
    throw error;
  }
  if (res.destroyed) {
    if (!whole) body.destroy();
    return undefined;
  }
  if (whole) answers.takeNow(res, body.length);
  res.writeHead(response.status, headers);
  if (whole) {
    endWith(res, body);
    return undefined;
  }
  res.flushHeaders();
  // A function that fails in the middle, or a caller that leaves: the connection is cut, so the answer is seen to be incomplete.
  const length = declaredLength(response);
  if (length === undefined) freeWhatLeft(body, res);
  const passing = length === undefined ? pipeline(body, res) : pipeline(body, exactly(length, res), res);
  return passing.catch(() => void res.destroy());
}

function declaredLength({ headers }: LoadBalancedResponse): number | undefined {
  const declared = headers.find(([name]) => name.toLowerCase() === "content-length");
  return declared === undefined ? undefined : Number(declared[1]);
}

/** A stream whose function said its length: one of another length would put the connection out of step. Its parts are freed when they have left. */
function exactly(length: number, res: ServerResponse) {
  return async function* (body: AsyncIterable<Buffer>) {
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > length) throw new Error("The body is longer than its content-length.");
      yield chunk;
      if (res.writableLength === 0) freeBytes(chunk);
    }
    if (bytes < length) throw new Error("The body is shorter than its content-length.");
  };
}

/** Parts of a body are freed once they have left. Called before it is read: what is written then is not among them yet. */
function freeWhatLeft(body: Readable, res: ServerResponse): void {
  const parts: Buffer[] = [];
  const free = () => {
    if (res.writableLength > 0) return;
    for (const part of parts.splice(0)) freeBytes(part);
  };
  body.on("data", (part: Buffer) => {
    if (parts.length > 0) free();
    // Where the caller never takes all, they are left to be collected.
    if (parts.length >= UNFREED_MAX_PARTS) parts.length = 0;
    if (part.length >= LARGE_PART_BYTES) parts.push(part);
  });
  res.on("drain", free);
}

/** What the function left of an upload must not stand before the next request on the connection. */
function passOverRest(req: IncomingMessage, body: Transform): void {
  req.unpipe(body);
  body.destroy();
  drain(req, () => {
    if (!req.complete) req.socket.destroy();
  });
}
