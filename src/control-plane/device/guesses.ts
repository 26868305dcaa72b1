import { SvcError } from "../../domain/errors.ts";
import { DEVICE_GUESSERS_MAX } from "../../domain/limits.ts";

/** Counts wrong codes by network address: one that guesses is refused until its window is over. */
export class Guesses {
  readonly #max: number;
  readonly #windowMs: number;
  /** Milliseconds of a clock that nobody sets. */
  readonly #now: () => number;
  readonly #wrong = new Map<string, { count: number; until: number }>();

  constructor(max: number, windowMs: number, now: () => number) {
    this.#max = max;
    this.#windowMs = windowMs;
    this.#now = now;
  }

  /** Throws RATE_LIMITED. */
  check(address: string): void {
    const entry = this.#wrong.get(address);
    if (entry === undefined || entry.until <= this.#now() || entry.count < this.#max) return;
    throw new SvcError("RATE_LIMITED", "Too many wrong codes.", { help: "Wait some minutes." });
  }

  wrong(address: string): void {
    const now = this.#now();
    const entry = this.#wrong.get(address);
    if (entry !== undefined && entry.until > now) {
      entry.count++;
      return;
    }
    if (this.#wrong.size >= DEVICE_GUESSERS_MAX) this.#wrong.clear();
    this.#wrong.set(address, { count: 1, until: now + this.#windowMs });
  }
}
