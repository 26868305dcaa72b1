import { setTimeout as delay } from "node:timers/promises";
import { POLL_FIRST_MS, POLL_MAX_MS } from "../domain/limits.ts";

/**
 * Calls `look` until it gives an answer: quickly at first, so that what is fast feels fast, then once a second.
 * Resolves with undefined when `maxMs` is over.
 */
export async function poll<T>(maxMs: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
  const deadline = performance.now() + maxMs;
  for (let pause = POLL_FIRST_MS; ; pause = Math.min(pause * 1.5, POLL_MAX_MS)) {
    const answer = await look();
    if (answer !== undefined) return answer;
    if (performance.now() + pause > deadline) return undefined;
    await delay(pause);
  }
}
