import type { Sample } from "../../src/autoscaler/sample.ts";

/** An endpoint without workers for which nothing waits. */
export const QUIET: Sample = {
  scalerType: "QUEUE_DELAY",
  scalerValue: 4,
  workersMin: 0,
  workersMax: 3,
  idleTimeoutMs: 60_000,
  maxConcurrency: 1,
  queued: 0,
  queuedLowPriority: 0,
  oldestWaitMs: 0,
  waitingRequests: 0,
  running: 0,
  runningLowPriority: 0,
  averageExecMs: undefined,
  averageLoad: 0,
  averageLowPriority: 0,
  workers: [],
  mustProve: false,
};
