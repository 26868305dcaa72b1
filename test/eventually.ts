import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 60_000;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 500;

/**
 * Repeats the check until it holds; its last complaint is thrown when it never does. It pauses as long as a check takes: one that
 * starts a program would otherwise take the processor from what it waits for.
 */
export async function eventually<T>(check: () => Promise<T> | T, patienceMs = PATIENCE_MS): Promise<T> {
  const end = performance.now() + patienceMs;
  for (;;) {
    const began = performance.now();
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    const tookMs = performance.now() - began;
    await delay(Math.min(PAUSE_MAX_MS, Math.max(PAUSE_MIN_MS, tookMs)));
  }
}
