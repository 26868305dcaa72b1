/** What the control plane's routes have in common: reading addresses, writing answers. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { finished, PassThrough } from "node:stream";
import { errorBody, SvcError } from "../domain/errors.ts";
import {
  ANSWER_TAKEN_BYTES_PER_MS,
  ANSWER_TAKEN_MAX_MS,
  BODIES_WHOLE_MAX_BYTES,
  BODY_ARRIVES_BYTES_PER_MS,
  BODY_ARRIVES_MAX_MS,
  INLINE_BODY_MAX_BYTES,
  MANAGEMENT_ANSWERS_MAX_BYTES,
  MANAGEMENT_BODIES_MAX_BYTES,
  REFUSED_BODY_DRAIN_MAX_BYTES,
  REFUSED_BODY_DRAIN_MAX_MS,
  UPLOAD_IDLE_MAX_MS,
} from "../domain/limits.ts";
import { ArrivalBudget } from "../lib/arrival-budget.ts";
import { HeldAnswers } from "../lib/held-answers.ts";
import { declaredBytes, drain, hasBody } from "../lib/request-body.ts";

const REFUSED_BODY = { maxBytes: REFUSED_BODY_DRAIN_MAX_BYTES, maxMs: REFUSED_BODY_DRAIN_MAX_MS };

/** Large answers of management in this process that their callers have not taken yet. */
export const unsent = new HeldAnswers({
  ...{ maxBytes: MANAGEMENT_ANSWERS_MAX_BYTES, shortMaxBytes: INLINE_BODY_MAX_BYTES },
  ...{ takenMaxMs: ANSWER_TAKEN_MAX_MS, bytesPerMs: ANSWER_TAKEN_BYTES_PER_MS },
  now: () => performance.now(),
  full: () => {
    const message = "Too many large answers are on their way to callers that take them slowly.";
    return new SvcError("RATE_LIMITED", message, { help: "Try again in 1 s." });
  },
});

/** Writes a JSON answer; a HEAD request gets the headers alone. Throws RATE_LIMITED, of a large one. */
export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  unsent.takeNow(response, body.length);
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

/** Writes the error body for any thrown value. An answer that has begun is cut. */
export function sendError(response: ServerResponse, error: unknown): void {
  const body = errorBody(error);
  refuse(response, body.status, body);
}

/**
 * Answers with an error's status and words. What is still to come of the request's body is thrown away, and the connection ends
 * behind the answer: whoever sent another request behind that would wait for ever.
 */
export function refuse(response: ServerResponse, status: number, words: unknown): void {
  if (response.headersSent) return void response.destroy();
  if (status === 401) response.setHeader("www-authenticate", "Bearer");
  const { req } = response;
  if (req.complete || !hasBody(req)) {
    sendJson(response, status, words);
    return;
  }
  const body = Buffer.from(JSON.stringify(words));
  response.setHeader("connection", "close");
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length }).write(body);
  drain(req, REFUSED_BODY, () => response.end());
}

export function methodNotAllowed(response: ServerResponse, path: string, allowed: string): void {
  response.setHeader("allow", allowed);
  sendError(response, new SvcError("METHOD_NOT_ALLOWED", `${path} takes ${allowed}, not ${response.req.method}.`));
}

/** The URL of a request. Throws BAD_INPUT for what is none, as "*". */
export function requestUrl({ url = "/" }: IncomingMessage): URL {
  // Put behind a host of ours as it is: resolved against one, "//name" would be a host itself.
  const text = url.startsWith("/") ? `http://control-plane${url}` : url;
  if (/^https?:/i.test(text) && URL.canParse(text)) return new URL(text);
  throw new SvcError("BAD_INPUT", `${JSON.stringify(url.slice(0, 200))} is not a path.`);
}

/** A part of a path as it was meant. Throws BAD_INPUT. */
export function decodedPart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SvcError("BAD_INPUT", `${JSON.stringify(text.slice(0, 200))} is not well encoded.`);
  }
}

/** Of the header Upload-Offset, in bytes. */
export const UPLOAD_OFFSET = /^\d{1,15}$/;

/**
 * A sender that is gone without a word would keep the others out; one that waits for us is not gone: for us to begin, to take
 * what it sent, or to answer. The body is read by a pipe (bodyOf), or not yet.
 */
export function endWhenIdle(
  request: IncomingMessage,
  response: ServerResponse,
  idleMs: number = UPLOAD_IDLE_MAX_MS,
): void {
  // Of the answer: node:http ends a connection itself where nobody listens, also one whose body is complete.
  response.setTimeout(idleMs, () => {
    const waitsForUs = request.complete || request.readableFlowing === null || request.isPaused();
    if (!waitsForUs) request.destroy();
    // It counts again only when something comes.
    else request.socket.setTimeout(idleMs);
  });
}

/**
 * The body as a stream of its own: whoever gives it up does not close the connection the answer needs. Who reads it is told that it
 * broke off, also when that was before: nobody may listen yet, and an error that nobody hears ends the process.
 */
export function bodyOf(request: IncomingMessage): PassThrough {
  const body = new PassThrough();
  body.on("error", () => {});
  finished(request, { writable: false }, (error) => {
    if (error) body.destroy(error);
  });
  return request.pipe(body);
}

/** Of all that ask for management in this process. */
const arriving = new ArrivalBudget({
  ...{ maxBytes: MANAGEMENT_BODIES_MAX_BYTES, wholeMaxBytes: BODIES_WHOLE_MAX_BYTES },
  ...{ arrivesMaxMs: BODY_ARRIVES_MAX_MS, bytesPerMs: BODY_ARRIVES_BYTES_PER_MS },
  now: () => performance.now(),
  full: () => new SvcError("RATE_LIMITED", "Too many large requests arrive at once.", { help: "Try again in 1 s." }),
  slow: () => new SvcError("SLOW_REQUEST", "The request took too long to arrive while others had no room."),
});

/** The body of a request. Throws TOO_LARGE, BAD_INPUT, RATE_LIMITED, SLOW_REQUEST. */
export async function readJsonObject(
  request: IncomingMessage,
  maxBytes: number,
  budget = arriving,
): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const tooLarge = () => new SvcError("TOO_LARGE", `The body has more than ${maxBytes} bytes.`);
  const declared = declaredBytes(request);
  if ((declared ?? 0) > maxBytes) throw tooLarge();
  const isShort = declared !== undefined && declared <= INLINE_BODY_MAX_BYTES;
  const body = bodyOf(request);
  let held = 0;
  const letGo = () => {
    chunks.length = 0;
    budget.give(held);
    held = 0;
  };
  const arrived = budget.arrives(
    () => bytes,
    (error) => {
      letGo();
      body.destroy(error);
    },
  );
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      // Long ones that arrive slowly do not keep short ones out.
      if (isShort) budget.takeWhole(chunk.length);
      else budget.take(chunk.length);
      held += chunk.length;
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge();
      chunks.push(chunk);
    }
    return jsonObject(Buffer.concat(chunks));
  } finally {
    arrived();
    letGo();
  }
}

/** Throws BAD_INPUT. */
function jsonObject(text: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(text));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {} // Said below.
  throw new SvcError("BAD_INPUT", "The body is not a JSON object.");
}
