/**
 * How many jobs were there at a time, waiting or running, as a moving average. By Little's law it is arrivals × time, so it
 * says how many workers the load keeps busy, without knowing either. The larger of a short and a long average counts: a rise
 * is followed in seconds, a lull that may be the gap between two bursts is waited out. A fall that is too deep for that is
 * followed too.
 */
const RISE_HALF_LIFE_MS = 3_000;
const FALL_HALF_LIFE_MS = 20_000;
/** Arrivals by chance vary by the square root of their number; a fall of so many of these is none. */
const DEEP_FALL = 1.2;

export class LoadAverage {
  #short = 0;
  #long = 0;
  #load = 0;
  #at: number | undefined;

  /** `load` holds from now on; what held since the last call is averaged in. Resolves the average. */
  observe(load: number, now: number): number {
    const elapsedMs = this.#at === undefined ? 0 : now - this.#at;
    this.#short = this.#averaged(this.#short, elapsedMs, RISE_HALF_LIFE_MS);
    this.#long = this.#averaged(this.#long, elapsedMs, FALL_HALF_LIFE_MS);
    this.#at = now;
    this.#load = load;
    if (this.#long - this.#short > DEEP_FALL * Math.sqrt(this.#long)) this.#long = this.#short;
    return Math.max(this.#short, this.#long);
  }

  #averaged(value: number, elapsedMs: number, halfLifeMs: number): number {
    const kept = 0.5 ** (elapsedMs / halfLifeMs);
    return value * kept + this.#load * (1 - kept);
  }
}
