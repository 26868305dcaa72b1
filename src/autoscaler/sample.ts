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
  /** Part of running: they scale nothing up. */
  readonly runningLowPriority: number;
  readonly averageExecMs: number | undefined;
  /** Moving average of the jobs of normal priority there were at a time, waiting or running; 0 at first. */
  readonly averageLoad: number;
  /** Moving average of the low-priority jobs that ran at a time. */
  readonly averageLowPriority: number;
  readonly workers: readonly SampledWorker[];
  /** A new revision must show once that it can start. */
  readonly mustProve: boolean;
  /** Workers of an earlier revision go at once, before a current one is ready: a developer waits for the new code. */
  readonly switchesAtOnce?: boolean;
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
