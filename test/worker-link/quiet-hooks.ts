import type { LinkHooks } from "../../src/worker-link/link-hooks.ts";

const nothing = () => {};

/** For a link whose platform is not looked at. */
export const QUIET_HOOKS = {
  workerReady: nothing,
  workerIdle: nothing,
  workerGone: nothing,
  bootFailed: nothing,
  workerStuck: nothing,
  workerLeaves: nothing,
  workerEnds: nothing,
  workerReplaced: async () => {},
  aliveWorkers: async () => [],
  failed: nothing,
  requestWaiting: nothing,
  log: () => undefined,
  health: () => ({ state: "READY", reason: "", progress: [] }),
} satisfies Omit<LinkHooks, "platformUrl" | "launcherConnected">;
