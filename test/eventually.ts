import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 60_000;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 1_000;
/** Of the time so far, and of what a check takes. */
const SHARE_OF_WAIT = 1 / 8;
const TIMES_A_CHECK = 3;

/**
 * Repeats the check until it holds; its last complaint is thrown when it never does. Its pauses grow with the wait and with what a
 * check takes: what starts a program each time, or asks for a minute, would otherwise take the processor from what it waits for.
 */
export async function eventually<T>(check: () => Promise<T> | T, patienceMs = PATIENCE_MS): Promise<T> {
  const first = performance.now();
  for (;;) {
    const began = performance.now();
    try {
      return await check();
    } catch (error) {
      if (performance.now() > first + patienceMs) throw error;
    }
    const now = performance.now();
    const wanted = Math.max((now - began) * TIMES_A_CHECK, (now - first) * SHARE_OF_WAIT);
    await delay(Math.min(PAUSE_MAX_MS, Math.max(PAUSE_MIN_MS, wanted)));
  }
}
