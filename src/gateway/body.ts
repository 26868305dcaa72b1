/**
 * Request bodies. A body over its limit is refused as soon as that is known, before it fills memory, and all bodies
 * being received share one budget.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Transform } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import {
  BODIES_WHOLE_MAX_BYTES,
  BODY_ARRIVES_BYTES_PER_MS,
  BODY_ARRIVES_MAX_MS,
  REFUSED_BODY_DRAIN_MAX_BYTES,
  REFUSED_BODY_DRAIN_MAX_MS,
} from "../domain/limits.ts";
import { ArrivalBudget } from "../lib/arrival-budget.ts";
import { freeBytes } from "../lib/free-bytes.ts";
import { declaredBytes, drain as drainBody } from "../lib/request-body.ts";
import { RateLimited } from "./rate-limits.ts";

const EMPTY = Buffer.alloc(0);
/** Of a body so much has come before there is memory for all that it is said to have. */
const GATHERED_MIN_BYTES = 1024 * 1024;

/** The caller went away in the middle of its request: there is nobody to answer. */
export class CallerGone extends Error {
  override name = "CallerGone";
}

/** Bytes of all bodies in memory that no one has taken over yet. Throws RateLimited; those that arrive slowly fail with SLOW_REQUEST. */
export class BodyBudget extends ArrivalBudget {
  constructor(maxBytes: number, now: () => number) {
    super({
      ...{ maxBytes, now, wholeMaxBytes: BODIES_WHOLE_MAX_BYTES },
      ...{ arrivesMaxMs: BODY_ARRIVES_MAX_MS, bytesPerMs: BODY_ARRIVES_BYTES_PER_MS },
      full: () => new RateLimited("Too many large requests arrive at once.", 1),
      slow: () => new SvcError("SLOW_REQUEST", "The request took too long to arrive while others had no room."),
    });
  }
}

export function tooLarge(maxBytes: number): SvcError {
  return new SvcError("TOO_LARGE", `The body is larger than ${maxBytes} bytes.`, {
    help: "Pass a link to large data instead of the data.",
  });
}

/** The caller may send its body now, if it waits for that. */
export function inviteBody(req: IncomingMessage, res: ServerResponse): void {
  if (req.headers.expect?.toLowerCase() === "100-continue") res.writeContinue();
}

/**
 * The whole body, at most `maxBytes` (else TOO_LARGE). Its bytes are taken from `budget`; the reader gives
 * `body.length` back when the bytes are stored. Throws CallerGone when the caller breaks off.
 */
export function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  maxBytes: number,
  budget: BodyBudget,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // It may have gone before anybody listened: then none of the events below would come.
    if (req.destroyed) return reject(new CallerGone());
    const declared = declaredBytes(req);
    if ((declared ?? 0) > maxBytes) return reject(tooLarge(maxBytes));
    if (req.complete && req.readableLength === declared) {
      // It came with the head, as short ones do: taken as it lies there, it costs no listeners and no events.
      budget.takeWhole(declared);
      return resolve(req.read() ?? EMPTY);
    }
    const body = new GatheredBody(declared);
    let bytes = 0;
    let isOver = false;
    const stop = () => {
      isOver = true;
      arrived();
      req.off("data", onData).off("end", onEnd).off("close", onClose);
    };
    const fail = (error: unknown) => {
      if (isOver) return;
      stop();
      budget.give(bytes);
      req.pause();
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      if (bytes + chunk.length > maxBytes) return fail(tooLarge(maxBytes));
      try {
        budget.take(chunk.length);
      } catch (error) {
        return fail(error);
      }
      // It was refused for its own next part.
      if (isOver) return budget.give(chunk.length);
      bytes += chunk.length;
      body.add(chunk);
    };
    const onEnd = () => {
      stop();
      resolve(body.whole());
    };
    const onClose = () => fail(new CallerGone());
    const arrived = budget.arrives(() => bytes, fail);
    req.on("data", onData).on("end", onEnd).on("close", onClose);
    inviteBody(req, res);
  });
}

/**
 * What has come of a body, put together where it will lie as soon as that is worth the memory: a caller that only says how much
 * it will send takes none.
 */
class GatheredBody {
  readonly #declared: number;
  #chunks: Buffer[] = [];
  #target: Buffer | undefined;
  #bytes = 0;

  constructor(declared = 0) {
    this.#declared = declared;
  }

  add(chunk: Buffer): void {
    const start = this.#bytes;
    this.#bytes += chunk.length;
    if (this.#target === undefined) {
      this.#chunks.push(chunk);
      if (this.#bytes >= GATHERED_MIN_BYTES && this.#bytes < this.#declared) this.#join(this.#declared);
    } else {
      chunk.copy(this.#target, start);
      freeBytes(chunk);
    }
  }

  whole(): Buffer {
    if (this.#target === undefined && this.#chunks.length > 1) this.#join(this.#bytes);
    return this.#target ?? this.#chunks[0] ?? EMPTY;
  }

  #join(size: number): void {
    this.#target = Buffer.allocUnsafeSlow(size);
    let end = 0;
    for (const chunk of this.#chunks) {
      end += chunk.copy(this.#target, end);
      freeBytes(chunk);
    }
    this.#chunks = [];
  }
}

/** Passes a body on as it arrives; errors with TOO_LARGE past `maxBytes`. */
export function limitedStream(req: IncomingMessage, maxBytes: number): Transform {
  let bytes = 0;
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > maxBytes) done(tooLarge(maxBytes));
      else done(null, chunk);
    },
  });
  req.pipe(limited);
  const onClose = () => {
    if (!req.complete) limited.destroy(new CallerGone());
  };
  if (req.destroyed) onClose();
  else req.once("close", onClose);
  limited.once("close", () => req.unpipe(limited).off("close", onClose));
  limited.on("error", () => {}); // Whoever reads it sees the error; nobody may be reading any more.
  return limited;
}

/** Throws away what is still to come of a body that nobody wants, within bounds; then calls `done` once. */
export function drain(req: IncomingMessage, done: () => void): void {
  drainBody(req, { maxBytes: REFUSED_BODY_DRAIN_MAX_BYTES, maxMs: REFUSED_BODY_DRAIN_MAX_MS }, done);
}
