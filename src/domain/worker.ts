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
