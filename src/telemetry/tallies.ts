/**
 * Counts what happens to jobs, requests and workers, endpoint by endpoint. It runs for every job: integers and typed arrays, made
 * once for each endpoint and step. Whoever takes the counts begins new ones.
 */
import { SERIES_ROUTES_MAX } from "../domain/limits.ts";
import { LogHistogram, type SparseHistogram } from "../domain/log-histogram.ts";
import { type Recorded, ROUTE_MARK } from "../domain/series.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { FinishedJob } from "../queue/queue.ts";

/** Routes beyond those that are told apart, and paths that are no route. */
export const OTHER_ROUTE = "other";
/** First digits of a status. */
export const STATUS_CLASSES = [2, 3, 4, 5] as const;

/** What happened to one endpoint. */
export class EndpointTally {
  done = 0;
  failed = 0;
  coldStarts = 0;
  wait: LogHistogram | undefined;
  run: LogHistogram | undefined;
  boot: LogHistogram | undefined;
  import: LogHistogram | undefined;
  request: LogHistogram | undefined;
  /** By route: how many answers of each status class. */
  readonly routes = new Map<string, Uint32Array>();

  jobFinished({ state, createdAt, startedAt, finishedAt }: FinishedJob): void {
    if (state === "CANCELLED") return;
    if (state === "COMPLETED") this.done += 1;
    else this.failed += 1;
    this.wait ??= new LogHistogram();
    this.wait.add((startedAt ?? finishedAt) - createdAt);
    if (startedAt === null) return;
    this.run ??= new LogHistogram();
    this.run.add(finishedAt - startedAt);
  }

  requestEnded(route: string, status: number, ms: number): void {
    this.request ??= new LogHistogram();
    this.request.add(ms);
    const classes = this.routes.get(route) ?? this.#newRoute(route);
    const index = Math.floor(status / 100) - STATUS_CLASSES[0];
    classes[Math.min(Math.max(index, 0), classes.length - 1)]! += 1;
  }

  #newRoute(route: string): Uint32Array {
    const name = this.routes.size < SERIES_ROUTES_MAX ? route : OTHER_ROUTE;
    return getOrInsert(this.routes, name, () => new Uint32Array(STATUS_CLASSES.length));
  }

  workerReady(bootMs: number, importMs: number): void {
    this.coldStarts += 1;
    this.boot ??= new LogHistogram();
    this.import ??= new LogHistogram();
    this.boot.add(bootMs);
    this.import.add(importMs);
  }

  /** Of all routes together, by status class. */
  get statuses(): number[] {
    const all = [...this.routes.values()];
    return STATUS_CLASSES.map((_, index) => all.reduce((sum, classes) => sum + classes[index]!, 0));
  }

  recorded(): Recorded {
    const numbers: Record<string, number> = {};
    const histograms: Record<string, SparseHistogram> = {};
    const number = (name: string, value: number) => {
      if (value > 0) numbers[name] = value;
    };
    const histogram = (name: string, counted: LogHistogram | undefined) => {
      if (counted !== undefined) histograms[name] = counted.sparse();
    };
    number("done", this.done);
    number("failed", this.failed);
    number("coldStarts", this.coldStarts);
    countClasses(number, "", this.statuses);
    for (const [route, classes] of this.routes) countClasses(number, `${ROUTE_MARK}${route}`, [...classes]);
    histogram("waitMs", this.wait);
    histogram("runMs", this.run);
    histogram("bootMs", this.boot);
    histogram("importMs", this.import);
    histogram("requestMs", this.request);
    return { numbers, histograms };
  }
}

function countClasses(number: (name: string, value: number) => void, end: string, classes: readonly number[]): void {
  number(
    `requests${end}`,
    classes.reduce((sum, count) => sum + count, 0),
  );
  STATUS_CLASSES.forEach((first, index) => {
    number(`requests.${first}xx${end}`, classes[index]!);
  });
}

export class Tallies {
  #byEndpoint = new Map<string, EndpointTally>();

  of(endpointId: string): EndpointTally {
    const known = this.#byEndpoint.get(endpointId);
    if (known !== undefined) return known;
    const tally = new EndpointTally();
    this.#byEndpoint.set(endpointId, tally);
    return tally;
  }

  /** What was counted since the last time. */
  take(): ReadonlyMap<string, EndpointTally> {
    const taken = this.#byEndpoint;
    this.#byEndpoint = new Map();
    return taken;
  }
}
