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
  STREAM_ANSWER_MAX_BYTES,
} from "../domain/limits.ts";
import { freeBytes } from "../lib/free-bytes.ts";
import { type HeldAnswer, HeldAnswers } from "../lib/held-answers.ts";
import type { ChunksThere, Job, JobReader } from "../queue/queue.ts";
import { CallerGone } from "./body.ts";
import { type CallerWatch, leftBehind } from "./caller.ts";
import { RateLimited } from "./rate-limits.ts";

/** How often it is looked who takes too long, while somebody waits. */
const LOOK_MS = 500;

interface Waiting {
  readonly bytes: number;
  readonly since: number;
  readonly elsewhere: string;
  readonly comes: () => void;
  readonly fails: (error: Error) => void;
}

export class LargeAnswers extends HeldAnswers {
  readonly #callers: Pick<CallerWatch, "follow">;
  /** The first to come first. */
  readonly #waiting = new Set<Waiting>();
  #looking: NodeJS.Timeout | undefined;

  constructor(maxBytes: number, now: () => number, callers: Pick<CallerWatch, "follow">) {
    super({
      ...{ maxBytes, now, shortMaxBytes: INLINE_BODY_MAX_BYTES },
      ...{ takenMaxMs: ANSWER_TAKEN_MAX_MS, bytesPerMs: ANSWER_TAKEN_BYTES_PER_MS },
      full: tooMany,
    });
    this.#callers = callers;
  }

  /** How many wait for room. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Whether there is room now, for who comes last: then they are counted until `res` is over. */
  take(res: ServerResponse, bytes: number): boolean {
    if (this.isShort(bytes)) return true;
    if (this.#waiting.size > 0 || !this.fits(bytes)) return false;
    this.add(res, bytes);
    return true;
  }

  /**
   * What `read` gives, when there is room for so many bytes: they are counted until `res` is over, or what `read` is given is called.
   * Throws RateLimited, with `elsewhere` behind it, and CallerGone.
   */
  async room<T>(
    res: ServerResponse,
    bytes: number,
    read: (letGo: () => void) => Promise<T>,
    elsewhere = "",
  ): Promise<T> {
    const waits = this.#waiting.size > 0 || !this.fits(bytes);
    const held = waits ? await this.#turn(res, bytes, elsewhere) : this.hold(res, bytes, true);
    try {
      if (res.destroyed) throw new CallerGone();
      return await read(() => this.letGo(held));
    } finally {
      held.isRead = false;
      if (res.destroyed) this.letGo(held);
    }
  }

  /** Cuts off who takes too long, as far as room is waited for, and refuses who has waited too long. */
  look(): void {
    this.cut(() => this.#waiting.size === 0);
    const now = this.bounds.now();
    for (const waiting of this.#waiting) {
      if (now - waiting.since < ANSWER_ROOM_MAX_MS) return;
      waiting.fails(tooMany(waiting.elsewhere));
    }
  }

  /** Waits until there is room, which is taken in the same moment. */
  #turn(res: ServerResponse, bytes: number, elsewhere: string): Promise<HeldAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<HeldAnswer>();
    const departure = this.#callers.follow(res.req, res);
    const over = () => {
      departure.onGone = () => {};
      this.#waiting.delete(waiting);
      if (this.#waiting.size > 0) return;
      clearInterval(this.#looking);
      this.#looking = undefined;
    };
    const waiting: Waiting = {
      ...{ bytes, since: this.bounds.now(), elsewhere },
      comes: () => {
        over();
        resolve(this.hold(res, bytes, true));
      },
      fails: (error) => {
        over();
        reject(error);
        this.roomCame();
      },
    };
    this.#waiting.add(waiting);
    this.#looking ??= setInterval(() => this.look(), LOOK_MS).unref();
    departure.onGone = () => waiting.fails(leftBehind({ closing: !res.destroyed }));
    if (departure.hasGone) departure.onGone();
    return promise;
  }

  protected override roomCame(): void {
    for (const waiting of this.#waiting) {
      if (!this.fits(waiting.bytes)) return;
      waiting.comes();
    }
  }
}

function tooMany(elsewhere = ""): RateLimited {
  return new RateLimited(`Too many large answers are on their way to callers that take them slowly${elsewhere}.`, 1);
}

function chunkBytes(chunks: readonly Uint8Array[]): number {
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

export interface Chunks<T> {
  /** Undefined: no such job. */
  readonly taken: T | undefined;
  /** They are counted no longer. */
  readonly letGo: () => void;
}

/** What `read` gives: short chunks as soon as they are there, one that is an answer by itself once there is room for it. Throws as `room` does. */
export async function chunksInRoom<T extends ChunksThere>(
  { answers }: Pick<Needs, "answers">,
  res: ServerResponse,
  holdMs: number,
  read: (holdMs: number, chunkMaxBytes: number) => Promise<T | undefined>,
): Promise<Chunks<T>> {
  const taken = await read(holdMs, STREAM_ANSWER_MAX_BYTES);
  const bytes = taken?.leftOutBytes;
  if (bytes === undefined) return { taken, letGo: answers.add(res, chunkBytes(taken?.chunks ?? [])) };
  return answers.room(res, bytes, async (letGo) => ({ taken: await read(0, bytes), letGo }));
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
