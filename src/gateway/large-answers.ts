/**
 * Large answers lie in memory until their callers have taken them. All of a process share one budget:
 *
 *   room   counted until its caller has it, or is gone
 *   none   it waits its turn, and what is to be sent is read when that comes; meanwhile callers that take too long are cut off
 */
import type { ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import {
  ANSWER_ROOM_MAX_MS,
  ANSWER_TAKEN_BYTES_PER_MS,
  ANSWER_TAKEN_MAX_MS,
  INLINE_BODY_MAX_BYTES,
} from "../domain/limits.ts";
import { freeBytes } from "../lib/free-bytes.ts";
import type { Job, JobReader } from "../queue/queue.ts";
import { CallerGone } from "./body.ts";
import { type CallerWatch, leftBehind } from "./caller.ts";
import { RateLimited } from "./rate-limits.ts";

/** How often it is looked who takes too long, while somebody waits. */
const LOOK_MS = 500;

interface Held {
  readonly res: ServerResponse;
  readonly bytes: number;
  readonly since: number;
  readonly onClose: () => void;
  /** It is read, into memory, whether or not its caller is there still. */
  isRead: boolean;
}

interface Waiting {
  readonly bytes: number;
  readonly since: number;
  readonly elsewhere: string;
  readonly comes: () => void;
  readonly fails: (error: Error) => void;
}

export class LargeAnswers {
  readonly #maxBytes: number;
  /** Milliseconds of a clock that is never set. */
  readonly #now: () => number;
  readonly #callers: Pick<CallerWatch, "follow">;
  /** The oldest first. */
  readonly #held = new Set<Held>();
  /** The first to come first. */
  readonly #waiting = new Set<Waiting>();
  #heldBytes = 0;
  #looking: NodeJS.Timeout | undefined;

  constructor(maxBytes: number, now: () => number, callers: Pick<CallerWatch, "follow">) {
    this.#maxBytes = maxBytes;
    this.#now = now;
    this.#callers = callers;
  }

  /** Bytes that are counted now. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** How many wait for room. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Whether there is room now: then they are counted until `res` is over. */
  take(res: ServerResponse, bytes: number): boolean {
    if (bytes <= INLINE_BODY_MAX_BYTES) return true;
    if (this.#waiting.size > 0 || !this.#fits(bytes)) return false;
    this.add(res, bytes);
    return true;
  }

  /** As take, of what cannot be read again and waits for nobody: room is made by those that take too long. Throws RateLimited. */
  takeNow(res: ServerResponse, bytes: number): void {
    if (bytes <= INLINE_BODY_MAX_BYTES) return;
    if (!this.#fits(bytes)) this.#cut(() => this.#fits(bytes));
    if (!this.#fits(bytes)) throw tooMany();
    this.add(res, bytes);
  }

  /** Counts them, room or not, as they are in memory already: until `res` is over, or the function that is returned is called. */
  add(res: ServerResponse, bytes: number): () => void {
    if (bytes <= INLINE_BODY_MAX_BYTES || res.destroyed) return () => {};
    const held = this.#hold(res, bytes, false);
    return () => this.#letGo(held);
  }

  /** What `read` gives, when there is room for so many bytes. Throws RateLimited, with `elsewhere` behind it, and CallerGone. */
  async room<T>(res: ServerResponse, bytes: number, read: () => Promise<T>, elsewhere = ""): Promise<T> {
    const waits = this.#waiting.size > 0 || !this.#fits(bytes);
    const held = waits ? await this.#turn(res, bytes, elsewhere) : this.#hold(res, bytes, true);
    try {
      if (res.destroyed) throw new CallerGone();
      return await read();
    } finally {
      held.isRead = false;
      if (res.destroyed) this.#letGo(held);
    }
  }

  /** Cuts off who takes too long, as far as room is waited for, and refuses who has waited too long. */
  look(): void {
    this.#cut(() => this.#waiting.size === 0);
    const now = this.#now();
    for (const waiting of this.#waiting) {
      if (now - waiting.since < ANSWER_ROOM_MAX_MS) return;
      waiting.fails(tooMany(waiting.elsewhere));
    }
  }

  #cut(isEnough: () => boolean): void {
    const now = this.#now();
    for (const held of this.#held) {
      if (isEnough()) return;
      if (now - held.since < ANSWER_TAKEN_MAX_MS + held.bytes / ANSWER_TAKEN_BYTES_PER_MS) continue;
      held.res.destroy();
      held.onClose();
    }
  }

  #hold(res: ServerResponse, bytes: number, isRead: boolean): Held {
    const onClose = () => {
      if (!held.isRead) this.#letGo(held);
    };
    const held: Held = { res, bytes, since: this.#now(), onClose, isRead };
    this.#held.add(held);
    this.#heldBytes += bytes;
    res.once("close", onClose);
    return held;
  }

  /** Waits until there is room, which is taken in the same moment. */
  #turn(res: ServerResponse, bytes: number, elsewhere: string): Promise<Held> {
    const { promise, resolve, reject } = Promise.withResolvers<Held>();
    const over = () => {
      departure.onGone = () => {};
      this.#waiting.delete(waiting);
      if (this.#waiting.size > 0) return;
      clearInterval(this.#looking);
      this.#looking = undefined;
    };
    const waiting: Waiting = {
      ...{ bytes, since: this.#now(), elsewhere },
      comes: () => {
        over();
        resolve(this.#hold(res, bytes, true));
      },
      fails: (error) => {
        over();
        reject(error);
        this.#letIn();
      },
    };
    this.#waiting.add(waiting);
    const departure = this.#callers.follow(res.req, res);
    departure.onGone = () => waiting.fails(leftBehind({ closing: !res.destroyed }));
    if (departure.hasGone) departure.onGone();
    this.#looking ??= setInterval(() => this.look(), LOOK_MS).unref();
    return promise;
  }

  #fits(bytes: number): boolean {
    return this.#held.size === 0 || this.#heldBytes + bytes <= this.#maxBytes;
  }

  #letGo(held: Held): void {
    if (!this.#held.delete(held)) return;
    held.res.off("close", held.onClose);
    this.#heldBytes -= held.bytes;
    this.#letIn();
  }

  #letIn(): void {
    for (const waiting of this.#waiting) {
      if (!this.#fits(waiting.bytes)) return;
      waiting.comes();
    }
  }
}

function tooMany(elsewhere = ""): RateLimited {
  return new RateLimited(`Too many large answers are on their way to callers that take them slowly${elsewhere}.`, 1);
}

export function chunkBytes(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

interface Needs {
  readonly answers: LargeAnswers;
  readonly queue: Pick<JobReader, "find">;
}

/** The job as it is, counted; or, where there is no room for its output now, without that. */
export function asFits({ answers }: Needs, res: ServerResponse, job: Job): Job {
  const leftOutBytes = job.output?.byteLength ?? 0;
  if (answers.take(res, leftOutBytes)) return job;
  if (job.isOutputOwn) freeBytes(job.output!);
  return { ...job, output: null, isOutputOwn: false, leftOutBytes };
}

/** The job with the output that was left out, once there is room for it. Throws RateLimited, CallerGone, JOB_NOT_FOUND. */
export async function whole({ answers, queue }: Needs, res: ServerResponse, job: Job): Promise<Job> {
  if (job.leftOutBytes === undefined) return job;
  const elsewhere = `: /status/${job.id} has this one as long as it is kept`;
  const found = await answers.room(res, job.leftOutBytes, () => queue.find(job.id), elsewhere);
  if (found !== undefined) return found;
  throw new SvcError("JOB_NOT_FOUND", `The result of the job "${job.id}" is not kept any more.`);
}

/** What `read` gives, once there is room for it: without, it is let go, and read again then. Throws RateLimited, CallerGone. */
export async function inRoom<T>(
  { answers }: Pick<Needs, "answers">,
  res: ServerResponse,
  read: () => Promise<T>,
  bytesOf: (found: T) => number,
): Promise<T> {
  let found: T | undefined = await read();
  const bytes = bytesOf(found);
  if (answers.take(res, bytes)) return found;
  found = undefined;
  return answers.room(res, bytes, read);
}
