/**
 * The link between a gateway and the owner of the jobs: one connection, frames as in docs/reference/protocol.md.
 *
 *   gateway                                owner
 *   HELLO {link: [1, 1], secret} ────────▶
 *         ◀──────── WELCOME {link: 1, settings, keys}, or REFUSED in words
 *   ASK n {op, …} body ──────────────────▶            n: a number that the gateway chooses, for as long as it is open
 *         ◀──────── ANSWER n …, or FAILED n {code, message}
 *   CANCEL n ────────────────────────────▶            nobody waits for it any more
 *         ◀──────── TAKEN n                          of a request that asked for it: a worker gets it now
 *   BODY n, WINDOW n                  both ways       of a request that streams: its bytes, and room for more
 *   TELL {what, …} ──────────────────────▶            not answered
 *         ◀──────── CHANGED {seq, table, id}          drop what you know of it,
 *   ACKED {seq} ─────────────────────────▶            it is dropped
 *         ◀──────── CLOSE {graceMs};  PING, PONG      both ways
 *
 * Nothing in it says that both are on one machine.
 */
import { ERROR_CATALOGUE, type ErrorCode, SvcError } from "../domain/errors.ts";
import { FRAME } from "../domain/worker-protocol.ts";
import { RateLimited } from "../gateway/rate-limits.ts";
import { type Frame, FrameError, parseHead } from "../lib/frames.ts";
import type { Connection } from "../worker-link/connection.ts";

/** The versions that are spoken here, the oldest first: that of the release before, and this one. */
export const LINK_VERSIONS = { min: 1, max: 1 } as const;

export const LINK_FRAME = {
  HELLO: FRAME.HELLO,
  WELCOME: FRAME.WELCOME,
  REFUSED: FRAME.REFUSED,
  BODY: FRAME.BODY,
  CANCEL: FRAME.CANCEL,
  PING: FRAME.PING,
  PONG: FRAME.PONG,
  WINDOW: FRAME.WINDOW,
  ASK: 64,
  ANSWER: 65,
  FAILED: 66,
  TELL: 67,
  CHANGED: 68,
  ACKED: 69,
  CLOSE: 70,
  TAKEN: 71,
} as const;

/** Flag: the body begins with the length of a text and that text, which is the head. */
const LONG_HEAD = 2;
/** So many characters have at most 64 KiB, whatever they are. */
const HEAD_MAX_CHARS = 0xffff / 3;

/** Sends `value` as the head, and `parts` behind each other as the body. */
export function sendValue(
  connection: Connection,
  type: number,
  channel: number,
  value: object,
  parts: readonly Uint8Array[] = [],
  flags = 0,
): void {
  const text = JSON.stringify(value);
  if (text.length <= HEAD_MAX_CHARS) {
    const body = parts.length <= 1 ? parts[0] : Buffer.concat(parts);
    connection.send(type, channel, text, body, flags);
    return;
  }
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  connection.send(type, channel, undefined, Buffer.concat([length, bytes, ...parts]), flags | LONG_HEAD);
}

/** What `sendValue` sent. Throws FrameError. */
export function readValue<T>(frame: Frame): { readonly value: T; readonly body: Buffer } {
  if ((frame.flags & LONG_HEAD) === 0) return { value: parseHead<T>(frame), body: frame.body };
  const { body } = frame;
  const end = body.length < 4 ? Number.POSITIVE_INFINITY : 4 + body.readUInt32BE(0);
  if (end > body.length) throw new FrameError("a long head is longer than its frame");
  return { value: parseHead<T>({ ...frame, headBytes: body.subarray(4, end) }), body: body.subarray(end) };
}

/** Cuts a body into parts of these lengths. Throws FrameError when it is shorter. */
export function cutParts(body: Buffer, lengths: readonly number[]): Buffer[] {
  let end = 0;
  const parts = lengths.map((length) => {
    end += length;
    return body.subarray(end - length, end);
  });
  if (end > body.length) throw new FrameError("a body is shorter than its parts");
  return parts;
}

export interface FailedHead {
  readonly code: string;
  readonly message: string;
  readonly help?: string | undefined;
  readonly where?: string | undefined;
  readonly retryAfterS?: number;
}

/** Undefined: an error that callers do not get to see. */
export function failedHead(error: unknown): FailedHead | undefined {
  if (!(error instanceof SvcError)) return undefined;
  const { code, message, help, where } = error;
  return { code, message, help, where, ...(error instanceof RateLimited && { retryAfterS: error.retryAfterS }) };
}

export const INTERNAL: FailedHead = { code: "INTERNAL", message: "Something failed inside the platform." };

export function errorOf({ code, message, help, where, retryAfterS }: FailedHead): SvcError {
  if (retryAfterS !== undefined) return new RateLimited(message, retryAfterS);
  // A later version may know others.
  const known = code in ERROR_CATALOGUE ? (code as ErrorCode) : "INTERNAL";
  return new SvcError(known, message, { ...(help !== undefined && { help }), ...(where !== undefined && { where }) });
}
