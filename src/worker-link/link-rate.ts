import { LINK_BURST_BYTES, LINK_RATE_BYTES_PER_S } from "../domain/limits.ts";

/** How much one worker may say: a bucket that fills with time. What is over is owed, and nothing is refused. */
export class LinkRate {
  readonly #now: () => number;
  #level = LINK_BURST_BYTES;
  #at: number;

  /** `now` gives milliseconds of a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now;
    this.#at = now();
  }

  spend(bytes: number): void {
    this.#level -= bytes;
  }

  get isOverdrawn(): boolean {
    return this.#level < 0;
  }

  /** Milliseconds until nothing is owed any more; 0 when nothing is. */
  owedMs(): number {
    const now = this.#now();
    this.#level = Math.min(LINK_BURST_BYTES, this.#level + ((now - this.#at) * LINK_RATE_BYTES_PER_S) / 1000);
    this.#at = now;
    return this.#level < 0 ? Math.ceil((-this.#level * 1000) / LINK_RATE_BYTES_PER_S) : 0;
  }
}
