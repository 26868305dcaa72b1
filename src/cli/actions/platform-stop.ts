import { setTimeout as delay } from "node:timers/promises";
import { SvcError } from "../../domain/errors.ts";
import { DRAIN_WAIT_MAX_MS, POLL_FIRST_MS } from "../../domain/limits.ts";
import type { CliContext } from "../context.ts";
import { dataDir } from "../paths.ts";
import { isAlive, livingPlatform } from "../platform/record.ts";

interface StopFlags {
  readonly now?: boolean;
  readonly dataDir?: string;
}

/** SIGTERM: finish running work, then end. SIGQUIT: end at once. */
export async function stop(this: CliContext, flags: StopFlags): Promise<void> {
  const running = await livingPlatform(dataDir(this.env, flags.dataDir));
  if (running === undefined) {
    this.terminal.out("No platform runs on this machine.");
    return;
  }
  const progress = await this.terminal.progress(`Stopping the platform (process ${running.pid})`);
  process.kill(running.pid, flags.now ? "SIGQUIT" : "SIGTERM");
  const deadline = Date.now() + DRAIN_WAIT_MAX_MS;
  while (isAlive(running.pid)) {
    if (Date.now() > deadline) {
      progress.done();
      throw new SvcError("CONFLICT", `The platform (process ${running.pid}) still finishes running work.`, {
        help: "Wait, or run svc platform stop --now.",
      });
    }
    await delay(POLL_FIRST_MS);
  }
  progress.done();
  this.terminal.out("The platform has stopped. Its data is kept; svc platform start goes on from there.");
}
