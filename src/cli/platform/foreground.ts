/**
 * The platform in this process, until it is told to stop:
 *
 *   SIGTERM, SIGINT, SIGHUP  finish running work, then end; a second one ends at once
 *   SIGQUIT                  end at once; accepted jobs are kept and go on at the next start
 *   SIGUSR2                  copy the databases for a backup that waits for them
 */
import path from "node:path";
import { SvcError } from "../../domain/errors.ts";
import { isLockedError } from "../../lib/sqlite.ts";
import { writeFileAtomic } from "../../lib/write-file-atomic.ts";
import { runPlatform } from "../../server/main.ts";
import type { CliContext } from "../context.ts";
import { exitCodeOf, formatError } from "../format-error.ts";
import { warnOfNoexec } from "../noexec.ts";
import { platformConfig } from "./configuration.ts";
import { missingIsolation, type ReadyMessage, type StartOptions } from "./start.ts";
import { warnOfUnknown } from "./unknown-settings.ts";

export async function runForeground(context: CliContext, options: StartOptions): Promise<void> {
  let snapshot = () => {};
  process.on("SIGUSR2", () => snapshot());
  // A gateway process is this program again.
  const program = [process.execPath, ...process.execArgv, ...process.argv.slice(1, 2)];
  await context.terminal.neverWait();
  try {
    const platform = await runPlatform(platformConfig(context, options), program);
    // Nothing of ours should come here: each promise has an owner. One that was forgotten is a failure that nobody looked
    // at, which does not make wrong what is stored; to end would take every caller's connection with it. An exception
    // that nobody caught does end the process, as ever: nobody knows what it left half done.
    process.on("unhandledRejection", (error) => platform.defect(error));
    const lost = platform.lost.then(async (error) => {
      await platform.stop({ now: true });
      throw error;
    });
    const stopped = Promise.race([lost, stopOnSignal(context, platform.stop, options.withParent ?? false)]);
    const { url, firstKey, missing } = platform;
    snapshot = platform.snapshot;
    warnOfUnknown(context);
    warnOfNoexec(context.terminal, options.dataDir);
    snapshot(); // A backup may have begun since the platform told where it is.
    if (process.send === undefined) await announce(context, url, firstKey, missing, options.keyFile);
    else tellParent({ ready: true, url, firstKey, missing });
    await stopped;
    // Everything is closed; a handle that a library forgot must not keep the process.
    context.exit(0);
  } catch (thrown) {
    const error = withFlag(thrown);
    const isChild = process.send !== undefined;
    context.terminal.note(formatError(error, context.terminal.errColors, isChild || context.env.SVC_DEBUG === "1"));
    if (isChild) {
      tellParent({ ready: false, error: described(error) });
      process.disconnect?.();
    }
    // As above: nothing takes what another has now while this one is kept.
    context.exit(exitCodeOf(error));
  }
}

function stopOnSignal(
  { interrupt }: CliContext,
  stop: (options: { now: boolean }) => Promise<void>,
  withParent: boolean,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (now: boolean) => void stop({ now }).then(resolve, reject);
    interrupt.claim(end);
    process.on("SIGQUIT", () => end(true));
    if (!withParent) return;
    if (process.connected) process.once("disconnect", () => end(true));
    else end(true);
  });
}

async function announce(
  { terminal, cwd }: CliContext,
  url: string,
  firstKey: string | undefined,
  missing: readonly string[],
  keyFile: string | undefined,
): Promise<void> {
  terminal.out(`Platform at ${url}`);
  if (firstKey !== undefined && keyFile !== undefined) {
    await writeFileAtomic(path.resolve(cwd, keyFile), `${firstKey}\n`, 0o600);
    terminal.out(`First API key: in ${keyFile}`);
  } else if (firstKey !== undefined) terminal.out(`First API key, shown only now: ${firstKey}`);
  if (missing.length > 0) terminal.note(missingIsolation(missing));
}

function tellParent(message: ReadyMessage): void {
  process.send?.(message);
}

/** The platform speaks of its configuration; here there is a flag for it. */
function withFlag(error: unknown): unknown {
  if (!(error instanceof SvcError) || error.code !== "PORT_IN_USE" || !error.help?.includes("SVC_PORT")) return error;
  return new SvcError("PORT_IN_USE", error.message, {
    help: "Stop what listens there, or choose another port: svc platform start --port N (0 takes any free one).",
    cause: error,
  });
}

function described(error: unknown): Extract<ReadyMessage, { ready: false }>["error"] {
  if (error instanceof SvcError) {
    const { code, message, help, where } = error;
    return { code, message, help, where, isTaken: isLockedError(error.cause) };
  }
  return {
    code: "PLATFORM_START_FAILED",
    message: "The platform could not start.",
    help: "Its log says why.",
  };
}
