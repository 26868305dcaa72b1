import type { Log } from "./log.ts";

/** Takes over a promise that nobody awaits: its rejection is logged and never ends the process. `what` names the work. */
export type Own = (what: string, promise: Promise<unknown>) => void;

const REPEAT_MS = 60_000;
const CAUSES_MAX = 1000;

/**
 * The same cause is logged once a minute, however often it comes. `isExpected` tells failures that are said elsewhere.
 * `now` gives milliseconds of a monotonic clock.
 */
export function createOwner(
  log: Pick<Log, "error">,
  isExpected: (error: unknown) => boolean,
  now: () => number = () => performance.now(),
): Own {
  const told = new Map<string, number>();
  return (what, promise) => {
    promise.catch((error: unknown) => {
      if (isExpected(error)) return;
      const cause = `${what}: ${error instanceof Error ? error.message : String(error)}`;
      if (now() - (told.get(cause) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
      if (told.size >= CAUSES_MAX) told.clear();
      told.set(cause, now());
      log.error(`${what} failed`, { error });
    });
  };
}
