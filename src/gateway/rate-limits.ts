/** Calls per endpoint, route and window of 10 s. Windows are fixed and the same for all, so a new one forgets everything. */
import { SvcError } from "../domain/errors.ts";
import {
  RATE_CANCEL_PER_WINDOW,
  RATE_PURGE_PER_WINDOW,
  RATE_REQUESTS_PER_WINDOW,
  RATE_RUN_PER_WINDOW,
  RATE_RUNSYNC_PER_WINDOW,
  RATE_STATUS_PER_WINDOW,
  RATE_STREAM_PER_WINDOW,
  RATE_WINDOW_MS,
} from "../domain/limits.ts";

export type RateClass = "run" | "runsync" | "status" | "stream" | "cancel" | "purge" | "requests";

/** Calls per window. */
export type RateLimits = Readonly<Record<RateClass, number>>;

export const RATE_LIMITS_DEFAULT: RateLimits = {
  run: RATE_RUN_PER_WINDOW,
  runsync: RATE_RUNSYNC_PER_WINDOW,
  status: RATE_STATUS_PER_WINDOW,
  stream: RATE_STREAM_PER_WINDOW,
  cancel: RATE_CANCEL_PER_WINDOW,
  purge: RATE_PURGE_PER_WINDOW,
  requests: RATE_REQUESTS_PER_WINDOW,
};

export class RateLimited extends SvcError {
  readonly retryAfterS: number;

  constructor(message: string, retryAfterS: number) {
    super("RATE_LIMITED", message, { help: `Try again in ${retryAfterS} s.` });
    this.retryAfterS = retryAfterS;
  }
}

export interface RateTaker {
  /** Counts one call. Throws RateLimited, or rejects with it, when the window's calls are used up. */
  take(endpointId: string, rate: RateClass): void | Promise<void>;
}

export class RateLimiter implements RateTaker {
  readonly #limits: RateLimits;
  readonly #now: () => number;
  readonly #counts = new Map<string, number>();
  #window = 0;

  constructor(limits: RateLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  take(endpointId: string, rate: RateClass): void {
    const now = this.#now();
    const window = Math.floor(now / RATE_WINDOW_MS);
    if (window !== this.#window) {
      this.#window = window;
      this.#counts.clear();
    }
    const key = `${rate} ${endpointId}`;
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#limits[rate]) {
      const retryAfterS = Math.ceil(((window + 1) * RATE_WINDOW_MS - now) / 1000);
      const limit = `${this.#limits[rate]} ${rate} calls in ${RATE_WINDOW_MS / 1000} s`;
      throw new RateLimited(`This endpoint takes at most ${limit}.`, retryAfterS);
    }
    this.#counts.set(key, count + 1);
  }
}
