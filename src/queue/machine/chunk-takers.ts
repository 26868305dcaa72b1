/**
 * Chunks of running jobs that go from the worker straight to the one who waits for them. One who has all that came before, and
 * waits alone, gets the next in order without a row; for everybody else chunks are stored, as those are that come while none waits.
 */
import { STREAM_ANSWER_MAX_BYTES } from "../../domain/limits.ts";
import type { RunningJob } from "./live-state.ts";
import { costOf, runOf } from "./refusals.ts";
import type { Waiters } from "./waiters.ts";

interface Taker {
  readonly chunks: Uint8Array[];
  bytes: number;
  /** Of the job that gave them: it may have begun anew since the wait did. */
  run: number;
  readonly chunkMaxBytes: number;
}

/** One who is told of each chunk of a run when it comes, and says whether it takes more. */
interface Follower {
  readonly run: number;
  readonly take: (chunk: Uint8Array) => boolean;
}

export class ChunkTakers {
  readonly #waiters: Waiters;
  readonly #hasNone: (job: RunningJob) => boolean;
  readonly #byJob = new Map<string, Taker>();
  readonly #followers = new Map<string, Follower>();

  /** `waiters` for chunks; `hasNone` says that no chunk of the job is stored, or is to be. */
  constructor(waiters: Waiters, hasNone: (job: RunningJob) => boolean) {
    this.#waiters = waiters;
    this.#hasNone = hasNone;
  }

  /**
   * Waits until something happens to a running job that has no chunks: those that were handed over meanwhile, or none.
   * undefined, at once, where the rows have to say what there is.
   */
  async wait(job: RunningJob | undefined, holdMs: number, signal: AbortSignal | undefined, chunkMaxBytes: number) {
    if (job === undefined || holdMs <= 0 || !this.#isFree(job)) return undefined;
    const taker: Taker = { chunks: [], bytes: 0, run: runOf(job), chunkMaxBytes };
    this.#byJob.set(job.id, taker);
    await this.#waiters.wait(job.id, holdMs, signal);
    this.#byJob.delete(job.id);
    const { chunks, run } = taker;
    return { chunks, run };
  }

  /** As JobProgress.followChunks. */
  async follow(job: RunningJob | undefined, follower: Follower, holdMs: number, signal: AbortSignal | undefined) {
    if (job === undefined || runOf(job) !== follower.run || !this.#isFree(job)) return false;
    this.#followers.set(job.id, follower);
    await this.#waiters.wait(job.id, holdMs, signal);
    this.#followers.delete(job.id);
    return true;
  }

  /** False when nobody follows the job, or not alone; and for a chunk that is an answer by itself, which waits in its row for its turn. */
  pass(job: RunningJob, chunk: Uint8Array): boolean {
    const follower = this.#followers.get(job.id);
    if (follower === undefined || follower.run !== runOf(job)) return false;
    if (chunk.byteLength > STREAM_ANSWER_MAX_BYTES) return false;
    if (this.#waiters.count(job.id) !== 1 || !this.#hasNone(job)) return false;
    if (!follower.take(chunk)) this.#waiters.notify(job.id);
    return true;
  }

  #isFree(job: RunningJob): boolean {
    return this.#hasNone(job) && !this.#byJob.has(job.id) && !this.#followers.has(job.id);
  }

  /** False when the chunk must be stored: nobody waits for it, or for one so large, or others look at the job's chunks too. */
  handOver(job: RunningJob, chunk: Uint8Array): boolean {
    const taker = this.#byJob.get(job.id);
    if (taker === undefined || !this.#hasNone(job)) return false;
    // One who was woken waits no more, and takes what comes until its turn.
    const isWoken = taker.chunks.length > 0;
    if (this.#waiters.count(job.id) !== (isWoken ? 0 : 1)) return false;
    const bytes = taker.bytes + costOf(chunk.byteLength);
    if (chunk.byteLength > taker.chunkMaxBytes) return false;
    if (isWoken && (bytes > STREAM_ANSWER_MAX_BYTES || taker.run !== runOf(job))) return false;
    taker.chunks.push(chunk);
    taker.bytes = bytes;
    taker.run = runOf(job);
    this.#waiters.notify(job.id);
    return true;
  }
}
