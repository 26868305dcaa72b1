/**
 * Whether this process stood still since it was last asked: it was stopped, its machine was paused, or something blocked it.
 * Who judges others by their silence asks first, and leaves its judgement out once: what they said meanwhile is not read yet.
 */
export class Standstill {
  readonly #maxMs: number;
  readonly #monotonic: () => number;
  #asked: number;

  /** `maxMs`: the longest time between two questions that is none. */
  constructor(maxMs: number, monotonic: () => number = () => performance.now()) {
    this.#maxMs = maxMs;
    this.#monotonic = monotonic;
    this.#asked = monotonic();
  }

  happened(): boolean {
    const now = this.#monotonic();
    const passed = now - this.#asked;
    this.#asked = now;
    return passed > this.#maxMs;
  }
}
