/** Answers: JSON bytes with their length, and the one error body. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type ErrorBody, errorBody, SvcError } from "../domain/errors.ts";
import { INLINE_BODY_MAX_BYTES, REFUSED_BODY_DRAIN_MAX_BYTES, REFUSED_BODY_DRAIN_MAX_MS } from "../domain/limits.ts";
import { declaredBytes, hasBody } from "./body.ts";
import { RateLimited } from "./rate-limits.ts";

/** Up to here a body is handed to the socket as one text with its headers: one write instead of two. */
const ONE_WRITE_MAX_BYTES = 16 * 1024;

/** Success is exactly 200. */
export function sendJson(res: ServerResponse, body: Buffer): void {
  if (res.destroyed) return;
  res.writeHead(200, ["Content-Type", "application/json", "Content-Length", String(body.length)]);
  if (body.length <= ONE_WRITE_MAX_BYTES) res.end(body.toString("latin1"), "latin1");
  else res.end(body);
}

export function sendObject(res: ServerResponse, body: object): void {
  sendJson(res, Buffer.from(JSON.stringify(body)));
}

/** `closing`: the connection ends with this answer. So it does when much of the body is still to come; a little is passed over. */
export function sendError(req: IncomingMessage, res: ServerResponse, error: unknown, closing = false): void {
  if (res.destroyed) return;
  if (res.headersSent) {
    res.destroy(); // Half an answer cannot be taken back: the caller must see that it is cut.
    return;
  }
  const body = errorBody(error);
  const bytes = Buffer.from(JSON.stringify(body));
  const bodyLeft = !req.complete && hasBody(req) && (declaredBytes(req) ?? Infinity) > INLINE_BODY_MAX_BYTES;
  const headers = ["Content-Type", "application/json", "Content-Length", String(bytes.length)];
  if (body.status === 401) headers.push("WWW-Authenticate", "Bearer");
  if (error instanceof RateLimited) headers.push("Retry-After", String(error.retryAfterS));
  if (error instanceof MethodNotAllowed) headers.push("Allow", error.allow);
  if (closing || bodyLeft) headers.push("Connection", "close");
  res.writeHead(body.status, headers);
  if (bodyLeft) {
    res.write(bytes);
    drainRefused(req, res);
  } else res.end(bytes);
}

export class MethodNotAllowed extends SvcError {
  readonly allow: string;

  constructor(route: string, methods: readonly string[]) {
    super("METHOD_NOT_ALLOWED", `${route} takes ${methods.join(" and ")} only.`);
    this.allow = methods.join(", ");
  }
}

/**
 * The answer is out while the caller still sends. Closing now would reset the connection and could take the answer
 * with it, so what comes is thrown away for a moment.
 */
function drainRefused(req: IncomingMessage, res: ServerResponse): void {
  let bytes = 0;
  const done = () => {
    clearTimeout(timer);
    res.end();
  };
  const timer = setTimeout(done, REFUSED_BODY_DRAIN_MAX_MS);
  req.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > REFUSED_BODY_DRAIN_MAX_BYTES) done();
  });
  req.once("end", done).once("close", done).resume();
}

/** The error body as a whole HTTP message, for what never became a request. */
export function rawError(error: SvcError): string {
  const body: ErrorBody = errorBody(error);
  const text = JSON.stringify(body);
  return (
    `HTTP/1.1 ${body.status} ${body.title}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`
  );
}
