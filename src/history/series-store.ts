/** Where series are kept: steps of 10 s, and what they add up to. docs/reference/metrics.md says how long. */
import type { Metric, Recorded } from "../domain/series.ts";

export interface SeriesQuestion {
  readonly metric: Metric;
  /** Endpoints whose sum is asked for; "all": those of the whole platform, also those that are gone. Of no meaning for the machine's metrics. */
  readonly endpointIds: readonly string[] | "all";
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
  /** Undefined: as many points as a picture needs. */
  readonly stepMs: number | undefined;
}

export interface SeriesAnswer {
  /** At least what was asked for. */
  readonly stepMs: number;
  /** Each step from `from` on; null where nothing was recorded. */
  readonly points: readonly { readonly at: number; readonly value: number | null }[];
}

export interface SeriesStore {
  /**
   * Keeps the step that began at `at`: what was recorded of endpoints by their ids, and of the machine. Endpoints on which
   * nothing happened are left out. Written soon, or left out when the disk does not take it.
   */
  record(at: number, endpoints: ReadonlyMap<string, Recorded>, machine: Recorded): void;
  read(question: SeriesQuestion): Promise<SeriesAnswer>;
  /** Names of the endpoint's metrics that are of routes, of the last two days. */
  routeMetrics(endpointId: string): Promise<string[]>;
  /** Endpoints that something is kept of. */
  endpointIds(): Promise<string[]>;
  forget(endpointId: string): Promise<void>;
}
