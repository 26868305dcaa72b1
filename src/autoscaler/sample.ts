import type { ScalerType } from "../domain/endpoint.ts";

/** Everything a decision about one endpoint is made from. Times in milliseconds. */
export interface Sample {
  readonly scalerType: ScalerType;
  readonly scalerValue: number;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly idleTimeoutMs: number;
  readonly maxConcurrency: number;
  /** Normal priority only. */
  readonly queued: number;
  readonly queuedLowPriority: number;
  /** How long the oldest queued job has waited. */
  readonly oldestWaitMs: number;
  readonly waitingRequests: number;
  /** Jobs and requests on workers. */
  readonly running: number;
  readonly averageExecMs: number | undefined;
  /** Moving average of the jobs there were at a time, waiting or running; 0 at first. */
  readonly averageLoad: number;
  readonly workers: readonly SampledWorker[];
  /** A new revision must show once that it can start. */
  readonly mustProve: boolean;
}

export interface SampledWorker {
  readonly id: string;
  /** Runs the endpoint's present code and settings. */
  readonly current: boolean;
  readonly ready: boolean;
  readonly busy: boolean;
  /** 0 while it works or boots. */
  readonly idleMs: number;
}

export interface Decision {
  readonly start: number;
  readonly stop: readonly string[];
  readonly reason: string;
}
