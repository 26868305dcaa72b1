/** Answers: JSON bytes with their length, and the one error body. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type ErrorBody, errorBody, openAiErrorBody, SvcError } from "../domain/errors.ts";
import { INLINE_BODY_MAX_BYTES, QUEUE_FULL_RETRY_S } from "../domain/limits.ts";
import { freeBytes } from "../lib/free-bytes.ts";
import { declaredBytes, hasBody } from "../lib/request-body.ts";
import { drain } from "./body.ts";
import { RateLimited } from "./rate-limits.ts";

/** Of server-sent events. */
export const STREAM_HEAD = [
  "Content-Type",
  "text/event-stream",
  "Cache-Control",
  "no-cache",
  "X-Accel-Buffering",
  "no",
];
const ONE_WRITE_MAX_BYTES = 8 * 1024;

/** Success is exactly 200. */
export function sendJson(res: ServerResponse, body: Buffer, headers: readonly string[] = []): void {
  if (res.destroyed) return;
  res.writeHead(200, ["Content-Type", "application/json", "Content-Length", String(body.length), ...headers]);
  endWith(res, body);
}

/** Head and body of a short answer leave in one write when both are text; latin1 keeps every byte as it is. */
export function endWith(res: ServerResponse, body: Buffer): void {
  if (body.length <= ONE_WRITE_MAX_BYTES) res.end(body.toString("latin1"), "latin1");
  else res.end(body);
}

/** As sendJson, of a body in parts, which leave as they are. `own`: one that nobody else has, whose memory is given back then. */
export function sendJsonParts(
  res: ServerResponse,
  parts: readonly Uint8Array[],
  headers: readonly string[] = [],
  own?: Uint8Array | null,
): void {
  if (res.destroyed) return;
  const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
  res.writeHead(200, ["Content-Type", "application/json", "Content-Length", String(length), ...headers]);
  res.cork();
  const left = (error: Error | null | undefined) => {
    if (own && !error) freeBytes(own);
  };
  for (const part of parts) {
    if (part === own) res.write(part, left);
    else res.write(part);
  }
  res.end();
  res.uncork();
}

export function sendObject(res: ServerResponse, body: object): void {
  sendJson(res, Buffer.from(JSON.stringify(body)));
}

/** Resolves when the caller takes more, or is gone. */
export function write(res: ServerResponse, data: Buffer | string): Promise<void> | undefined {
  if (!res.destroyed) res.write(data);
  return drained(res);
}

/** The same of what was written so far. */
export function drained(res: ServerResponse): Promise<void> | undefined {
  if (res.destroyed || !res.writableNeedDrain) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      res.off("drain", done).off("close", done);
      resolve();
    };
    res.on("drain", done).on("close", done);
  });
}

interface ErrorAnswer {
  /** The connection ends with this answer. So it does when much of the body is still to come; a little is passed over. */
  readonly closing?: boolean;
  /** The caller may be an OpenAI client. */
  readonly forOpenAi?: boolean;
}

export function sendError(
  req: IncomingMessage,
  res: ServerResponse,
  error: unknown,
  { closing = false, forOpenAi = false }: ErrorAnswer = {},
): void {
  if (res.destroyed) return;
  if (res.headersSent) {
    res.destroy(); // Half an answer cannot be taken back: the caller must see that it is cut.
    return;
  }
  const body = forOpenAi ? openAiErrorBody(error) : errorBody(error);
  const bytes = Buffer.from(JSON.stringify(body));
  const bodyLeft = !req.complete && hasBody(req) && (declaredBytes(req) ?? Infinity) > INLINE_BODY_MAX_BYTES;
  const headers = ["Content-Type", "application/json", "Content-Length", String(bytes.length)];
  if (body.status === 401) headers.push("WWW-Authenticate", "Bearer");
  if (error instanceof RateLimited) headers.push("Retry-After", String(error.retryAfterS));
  else if (body.status === 429) headers.push("Retry-After", String(QUEUE_FULL_RETRY_S));
  if (error instanceof MethodNotAllowed) headers.push("Allow", error.allow);
  if (closing || bodyLeft) headers.push("Connection", "close");
  res.writeHead(body.status, headers);
  if (bodyLeft) {
    // Closing while the caller still sends would reset the connection and could take the answer with it.
    res.write(bytes);
    drain(req, () => res.end());
  } else res.end(bytes);
}

export class MethodNotAllowed extends SvcError {
  readonly allow: string;

  constructor(route: string, methods: readonly string[]) {
    super("METHOD_NOT_ALLOWED", `${route} takes ${methods.join(" and ")} only.`);
    this.allow = methods.join(", ");
  }
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
