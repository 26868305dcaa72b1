/** What the link knows about one endpoint right now: the autoscaler's sample and the rule for prefetching. */
import { PREFETCH_EXECUTION_MAX_MS, PREFETCH_JOBS_MAX, PREFETCH_PAUSE_MS } from "../domain/limits.ts";

const AVERAGE_WEIGHT = 0.1;

export class EndpointLoad {
  /** Moving average of execution time; undefined before the first result. */
  averageExecMs: number | undefined;
  #prefetchAgainAt = 0;

  executed(execMs: number): void {
    this.averageExecMs =
      this.averageExecMs === undefined ? execMs : this.averageExecMs + AVERAGE_WEIGHT * (execMs - this.averageExecMs);
  }

  /**
   * After a loss jobs go out one by one for a while: results that a dying worker had not sent yet
   * must not count against the jobs behind them.
   */
  workerLost(now: number): void {
    this.#prefetchAgainAt = now + PREFETCH_PAUSE_MS;
  }

  /** How many jobs beyond its slots a worker may hold: only for short ones, where the way back and forth would dominate. */
  prefetch(now: number): number {
    const short = this.averageExecMs !== undefined && this.averageExecMs < PREFETCH_EXECUTION_MAX_MS;
    return short && now >= this.#prefetchAgainAt ? PREFETCH_JOBS_MAX : 0;
  }
}
