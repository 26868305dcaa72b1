import { setTimeout as delay } from "node:timers/promises";
import { SvcError } from "../../domain/errors.ts";
import { DRAIN_WAIT_MAX_MS, POLL_FIRST_MS } from "../../domain/limits.ts";
import { isRunning, startTimeOf } from "../../lib/start-time.ts";
import type { CliContext } from "../context.ts";
import type { PlatformRecord } from "./record.ts";

/** Ends a platform and waits until it is gone. Running work is finished first, unless `now`. Throws CONFLICT when that takes too long. */
export async function stopPlatform(
  { terminal }: CliContext,
  { pid }: PlatformRecord,
  { now }: { readonly now: boolean },
): Promise<void> {
  const progress = await terminal.progress(`Stopping the platform (process ${pid})`);
  const startTime = startTimeOf(pid);
  process.kill(pid, now ? "SIGQUIT" : "SIGTERM");
  const deadline = performance.now() + DRAIN_WAIT_MAX_MS;
  while (isRunning(pid, startTime)) {
    if (performance.now() > deadline) {
      progress.done();
      throw new SvcError("CONFLICT", `The platform (process ${pid}) still finishes running work.`, {
        help: "Wait, or run svc platform stop --now.",
      });
    }
    await delay(POLL_FIRST_MS);
  }
  progress.done();
}
