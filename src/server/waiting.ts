/** A platform that waits for the database, as whoever started it sees it. */
import type { SvcError } from "../domain/errors.ts";
import { STOP_GRACE_MS } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import type { Replica } from "./replica.ts";
import type { RunningPlatform } from "./running-platform.ts";

interface WaitingNeeds {
  readonly url: string;
  readonly replica: Pick<Replica, "stopWaiting">;
  /** Resolves when it has the database, and does all that a platform does. */
  readonly started: Promise<RunningPlatform>;
  readonly log: Log;
}

export function waitingPlatform({ url, replica, started, log }: WaitingNeeds): RunningPlatform {
  let running: RunningPlatform | undefined;
  let isStopping = false;
  const lost = started.then(
    (platform) => {
      running = platform;
      return platform.lost;
    },
    (error: SvcError) => (isStopping ? new Promise<never>(() => {}) : error),
  );
  return {
    url,
    firstKey: undefined,
    missing: [],
    lost,
    async stop(options) {
      isStopping = true;
      if (running === undefined) {
        log.info("the platform stops", options);
        replica.stopWaiting(options.now ? 0 : STOP_GRACE_MS);
      }
      const platform = await started.catch(() => undefined);
      await platform?.stop(options);
    },
    snapshot: () => running?.snapshot(),
    defect: (error) => log.error("a defect: nobody expected this failure; please report it", { error }),
  };
}
