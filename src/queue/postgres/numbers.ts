/**
 * Numbers of rows begin with the time, so that they rise over all shards and restarts, and end with the shard, so that no two owners
 * give the same.
 */
import { SHARDS } from "./schema.ts";

export const SEQ_EPOCH_MS = 1_600_000_000_000;
export const SEQS_PER_MS = 16;

/** The first number of a moment. */
export const seqAt = (ms: number): number => Math.max(0, (ms - SEQ_EPOCH_MS) * SEQS_PER_MS * SHARDS);

export class Numbers {
  readonly #clock: () => number;
  #lastTick = 0;
  #lastEndpoint = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Numbers up to this one were given. */
  given(seq: number): void {
    this.#lastTick = Math.max(this.#lastTick, Math.floor(seq / SHARDS));
  }

  givenEndpoint(number: number): void {
    this.#lastEndpoint = Math.max(this.#lastEndpoint, Math.floor(number / SHARDS));
  }

  /** The highest given so far, whatever the shard. */
  last(): number {
    return (this.#lastTick + 1) * SHARDS - 1;
  }

  next(shard: number): number {
    this.#lastTick = Math.max(this.#lastTick + 1, (this.#clock() - SEQ_EPOCH_MS) * SEQS_PER_MS);
    return this.#lastTick * SHARDS + shard;
  }

  nextEndpoint(shard: number): number {
    this.#lastEndpoint++;
    return this.#lastEndpoint * SHARDS + shard;
  }
}
