/**
 * What happened since the platform started, for readers that take differences: numbers never fall. A bounded number of endpoints
 * have numbers of their own, first come, first served; one at rest for long gives its place away. All others are one.
 */
import { METRICS_ENDPOINTS_MAX, METRICS_IDLE_MS } from "../domain/limits.ts";
import { LogHistogram } from "../domain/log-histogram.ts";
import { type EndpointTally, STATUS_CLASSES } from "./tallies.ts";

export const HISTOGRAMS = ["wait", "run", "boot", "import", "request"] as const;

export class Totals {
  done = 0;
  failed = 0;
  coldStarts = 0;
  readonly statuses = STATUS_CLASSES.map(() => 0);
  readonly histograms: Partial<Record<(typeof HISTOGRAMS)[number], LogHistogram>> = {};
  /** By a clock that is never set, in milliseconds. */
  lastAt = 0;

  add(tally: EndpointTally): void {
    this.done += tally.done;
    this.failed += tally.failed;
    this.coldStarts += tally.coldStarts;
    for (const [index, count] of tally.statuses.entries()) this.statuses[index]! += count;
    for (const name of HISTOGRAMS) {
      const counted = tally[name];
      if (counted === undefined) continue;
      this.histograms[name] ??= new LogHistogram();
      this.histograms[name].merge(counted);
    }
  }
}

export class EndpointTotals {
  readonly #own = new Map<string, Totals>();
  readonly #now: () => number;
  readonly other = new Totals();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Endpoints with numbers of their own. */
  get own(): ReadonlyMap<string, Totals> {
    return this.#own;
  }

  add(tallies: ReadonlyMap<string, EndpointTally>): void {
    const now = this.#now();
    for (const [id, tally] of tallies) {
      const totals = this.#own.get(id) ?? this.#place(id, now);
      totals.add(tally);
      totals.lastAt = now;
    }
  }

  forget(endpointId: string): void {
    this.#own.delete(endpointId);
  }

  #place(id: string, now: number): Totals {
    if (this.#own.size >= METRICS_ENDPOINTS_MAX) {
      const [idlest, { lastAt }] = [...this.#own].reduce((a, b) => (b[1].lastAt < a[1].lastAt ? b : a));
      if (now - lastAt < METRICS_IDLE_MS) return this.other;
      this.#own.delete(idlest);
    }
    const totals = new Totals();
    this.#own.set(id, totals);
    return totals;
  }
}
