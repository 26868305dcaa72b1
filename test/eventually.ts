import { setTimeout as delay } from "node:timers/promises";

const PATIENCE_MS = 60_000;

/** Repeats the check until it holds; its last complaint is thrown when it never does. */
export async function eventually<T>(check: () => Promise<T> | T, patienceMs = PATIENCE_MS): Promise<T> {
  const end = performance.now() + patienceMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await delay(50);
  }
}
