/** Where series are kept: steps of 10 s, and what they add up to. docs/reference/metrics.md says how long. */
import type { Metric, Recorded } from "../domain/series.ts";

export interface SeriesQuestion {
  readonly metric: Metric;
  /**
   * Endpoints or environments whose sum is asked for; "all": the whole platform. Sums of environments and of all hold what gone endpoints
   * did, and nothing of single routes. For the machine's metrics a machine that joined, by its id; none: all machines together.
   */
  readonly ids: readonly string[] | "all";
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

/** What one platform's file has for an answer: of each step that it recorded how often it looked, and the metric's sums. */
export interface SeriesParts {
  readonly stepMs: number;
  readonly steps: readonly (readonly [at: number, samples: number, Recorded])[];
}

/** A step of an endpoint. */
export interface RecordedEndpoint extends Recorded {
  /** The environment that it counts in. */
  readonly environmentId: string | null;
}

export interface SeriesStore {
  /**
   * Keeps the step that began at `at`: what was recorded of endpoints by their ids, of the machine, and of machines that joined by
   * theirs. Environments and the platform get their sums. Endpoints on which nothing happened are left out, machines of which nothing
   * is known too. Written soon, or left out when the disk does not take it.
   */
  record(
    at: number,
    endpoints: ReadonlyMap<string, RecordedEndpoint>,
    machine: Recorded,
    hosts?: ReadonlyMap<string, Recorded>,
  ): void;
  read(question: SeriesQuestion): Promise<SeriesAnswer>;
  parts(question: SeriesQuestion): Promise<SeriesParts>;
  /** Names of the endpoint's metrics that are of routes, of the last two days. */
  routeMetrics(endpointId: string): Promise<string[]>;
  /** Endpoints, environments and machines that joined that something is kept of. */
  endpointIds(): Promise<string[]>;
  forget(id: string): Promise<void>;
}
