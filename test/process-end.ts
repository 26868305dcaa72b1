/** The end of a process of which a test reads what it says. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

const HELD_OPEN_MS = 2_000;

/**
 * Resolves the code when the process has ended and all that it said is read: its end may be noticed first. Processes that
 * outlive it may hold its streams open; those are not waited for.
 */
export async function endOf(child: ChildProcess): Promise<number | null> {
  const closed = once(child, "close");
  const [code] = (await once(child, "exit")) as [number | null];
  const given = new AbortController();
  await Promise.race([closed, delay(HELD_OPEN_MS, undefined, { signal: given.signal }).catch(() => {})]);
  given.abort();
  return code;
}
