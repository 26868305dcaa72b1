import { LINK_BURST_BYTES, LINK_RATE_BYTES_PER_S } from "../domain/limits.ts";

/** The clock is looked at once for so many bytes. */
const SETTLED_BYTES = LINK_BURST_BYTES / 32;

/**
 * How much one worker may say: a bucket that fills with time. What is over is owed, and nothing is refused. What was said since
 * the last look counts as said now, so that time in which the bucket was full is not counted behind it a second time.
 */
export class LinkRate {
  readonly #now: () => number;
  #level = LINK_BURST_BYTES;
  #at: number;
  #spent = 0;

  /** `now` gives milliseconds of a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now;
    this.#at = now();
  }

  spend(bytes: number): void {
    this.#spent += bytes;
    if (this.#spent > SETTLED_BYTES) this.#settle();
  }

  get isOverdrawn(): boolean {
    return this.#level < this.#spent;
  }

  /** Milliseconds until nothing is owed any more; 0 when nothing is. */
  owedMs(): number {
    this.#settle();
    return this.#level < 0 ? Math.ceil((-this.#level * 1000) / LINK_RATE_BYTES_PER_S) : 0;
  }

  #settle(): void {
    const now = this.#now();
    const filled = this.#level + ((now - this.#at) * LINK_RATE_BYTES_PER_S) / 1000;
    this.#level = Math.min(LINK_BURST_BYTES, filled) - this.#spent;
    this.#spent = 0;
    this.#at = now;
  }
}
