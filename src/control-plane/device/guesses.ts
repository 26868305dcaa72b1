import { SvcError } from "../../domain/errors.ts";
import { DEVICE_GUESSERS_MAX } from "../../domain/limits.ts";

/** Counts wrong codes by network address: one that guesses is refused until its window is over. */
export class Guesses {
  readonly #max: number;
  readonly #windowMs: number;
  readonly #clock: () => number;
  readonly #wrong = new Map<string, { count: number; until: number }>();

  constructor(max: number, windowMs: number, clock: () => number) {
    this.#max = max;
    this.#windowMs = windowMs;
    this.#clock = clock;
  }

  /** Throws RATE_LIMITED. */
  check(address: string): void {
    const entry = this.#wrong.get(address);
    if (entry === undefined || entry.until <= this.#clock() || entry.count < this.#max) return;
    throw new SvcError("RATE_LIMITED", "Too many wrong codes.", { help: "Wait some minutes." });
  }

  wrong(address: string): void {
    const now = this.#clock();
    const entry = this.#wrong.get(address);
    if (entry !== undefined && entry.until > now) {
      entry.count++;
      return;
    }
    if (this.#wrong.size >= DEVICE_GUESSERS_MAX) this.#wrong.clear();
    this.#wrong.set(address, { count: 1, until: now + this.#windowMs });
  }
}
