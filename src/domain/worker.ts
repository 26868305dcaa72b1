/**
 * A worker's life, as the workers table has it:
 *
 *   STARTING ──hello──▶ BOOTING ──first credit──▶ READY ──scale-down, roll──▶ DRAINING ──exit──▶ (row deleted)
 *       └───────────────┴── boot failed, exit ──▶ FAILED (kept for the reason, then deleted)
 *
 * Whether a READY worker is idle or running follows from its jobs; it is not stored.
 */

export const WORKER_STATES = ["STARTING", "BOOTING", "READY", "DRAINING", "FAILED"] as const;
export type WorkerState = (typeof WORKER_STATES)[number];

/** Counts towards the endpoint's desired number of workers. */
export function isActive(state: WorkerState): boolean {
  return state === "STARTING" || state === "BOOTING" || state === "READY";
}

/** Not yet able to take work, but on its way. */
export function isInitializing(state: WorkerState): boolean {
  return state === "STARTING" || state === "BOOTING";
}

/** The `workers` object of /health. */
export interface WorkerCounts {
  readonly idle: number;
  readonly initializing: number;
  /** Idle and running ones together. */
  readonly ready: number;
  readonly running: number;
  /** Wanted, but the machine has no room. */
  readonly throttled: number;
  readonly unhealthy: number;
}

/** Whether an endpoint can take work, for `svc status`, deploys and waiting callers. */
export interface EndpointHealth {
  readonly state: "PREPARING" | "READY" | "BLOCKED" | "STOPPED";
  /** Why it is blocked; "" otherwise. */
  readonly reason: string;
  /** Lines about what is being prepared. */
  readonly progress: readonly string[];
}

/** What the autoscaler wants of an endpoint's workers now. */
export interface Decision {
  readonly start: number;
  /** How many workers of the present revision there are to be. */
  readonly desired: number;
  /** Work waits for what starts, or workersMin or a new revision asks for it. */
  readonly urgent: boolean;
  readonly stop: readonly string[];
  /** Busy ones beyond workersMax: they take no more work and go when they have finished what they have. */
  readonly drain: readonly string[];
  readonly reason: string;
}

/** One decision of the autoscaler to start or stop workers. */
export interface ScalingDecision {
  /** Milliseconds since the epoch; of the last time when it was made several times in a row. */
  readonly at: number;
  readonly start: number;
  /** How many workers it stopped. */
  readonly stop: number;
  readonly reason: string;
  readonly times: number;
}

/** How a worker came up, and what is in force around it. */
export interface WorkerStart {
  readonly how: "fork" | "spawn";
  /** Why it was no fork of a zygote; "" when it was. */
  readonly reason: string;
  /** Memory and CPU: cgroup2, cgroup1, rlimit or none. */
  readonly limits: string;
  /** What keeps it from the platform's files and other workers, e.g. "landlock"; "" for nothing. */
  readonly isolation: string;
}

/** What bringing a worker up took. */
export interface WorkerBoot {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly bootMs: number;
  readonly importMs: number;
}

/** What only the platform that runs a worker knows of it. */
export interface SeenWorker {
  /** Undefined while it starts, and for one that an earlier run of the platform started. */
  readonly start?: WorkerStart | undefined;
  /** Jobs and requests that it has ended; undefined when it is not connected. */
  readonly jobsDone?: number | undefined;
  readonly boot?: WorkerBoot | undefined;
}

/** What a platform that gives an endpoint's shard away runs of it, and the next one is to have ready. */
export interface AheadWish {
  readonly endpointId: string;
  readonly revision: string;
  readonly workers: number;
}

/** What the rest of the platform may ask about an endpoint's workers. */
export interface WorkerView {
  counts(endpointId: string): WorkerCounts | Promise<WorkerCounts>;
  health(endpointId: string): EndpointHealth | Promise<EndpointHealth>;
}

/** An endpoint's load as the worker link sees it now: what the autoscaler samples. */
export interface EndpointSample {
  readonly waitingRequests: number;
  readonly running: number;
  readonly averageExecMs: number | undefined;
  readonly workers: readonly {
    readonly id: string;
    readonly ready: boolean;
    readonly busy: boolean;
    readonly idleMs: number;
  }[];
}
