/**
 * Starts the platform as a process of its own:
 *
 *   svc platform start ──spawn, detached──▶ svc platform start --foreground
 *          ◀──────one IPC message: ready, or why not──────┘        (then the channel is closed)
 *
 * Its output goes to <data>/platform.log. The first start's key arrives in the message and is stored.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { type ErrorCode, SvcError } from "../../domain/errors.ts";
import { PLATFORM_PORT_DEFAULT, PLATFORM_START_TIMEOUT_MS } from "../../domain/limits.ts";
import { explained, lackOf } from "../../domain/storage.ts";
import { makeFolder } from "../../lib/make-folder.ts";
import type { CliContext } from "../context.ts";
import { Credentials, type Login } from "../credentials.ts";
import { warnOfNoexec } from "../noexec.ts";
import { configDir } from "../paths.ts";
import { poll } from "../poll.ts";
import { NODE_FLAGS } from "./node-flags.ts";
import { logPath, runningPlatform } from "./record.ts";

/** Who finds that another command starts the same platform waits for it so long, and tries itself again so often. */
const START_TAKEN_MAX_MS = 30_000;
const START_AGAIN_MS = 3_000;

export interface StartOptions {
  readonly dataDir: string;
  readonly port?: number;
  readonly host?: string;
  /** Processes that take calls. */
  readonly gateways?: number;
  readonly emulateGpu?: boolean;
  readonly durability?: "normal" | "full";
  readonly driver?: "process" | "docker";
  /** In the foreground: where the first key is written. */
  readonly keyFile?: string;
  /** In the foreground: end, at once, when the process that started it does. */
  readonly withParent?: boolean;
  /** Take another port when the default one is busy, instead of failing. */
  readonly anyFreePort?: boolean;
}

export interface StartedPlatform {
  readonly url: string;
  readonly pid: number;
  /** Only at the first start of a data directory. */
  readonly firstKey: string | undefined;
  /** For the commands of this user. */
  readonly isKeyStored: boolean;
  /** False: another command's start was faster, and its platform is this one. */
  readonly started: boolean;
}

/** What the foreground platform tells the process that started it. */
export type ReadyMessage =
  | { readonly ready: true; readonly url: string; readonly firstKey?: string; readonly missing?: readonly string[] }
  | {
      readonly ready: false;
      readonly error: {
        readonly code: ErrorCode;
        readonly message: string;
        readonly help?: string;
        readonly where?: string;
        /** Another process has the data directory: it may be starting, or about to end. */
        readonly isTaken?: boolean;
      };
    };

export async function startEmbedded(context: CliContext, options: StartOptions): Promise<StartedPlatform> {
  const port = options.port ?? (await choosePort(context, options));
  await makeDataDir(options.dataDir);
  const progress = await context.terminal.progress("Starting the platform on this machine");
  let child: ChildProcess | undefined;
  // Its first key is told only to us: it is stored before an interrupt ends the two.
  let unwanted = false;
  const end = () => {
    child?.kill("SIGTERM");
    context.interrupt.note = "The platform was not started.";
    return context.interrupt.end();
  };
  const unclaim = context.interrupt.claim((again) => {
    if (again) end();
    unwanted = true;
  });
  try {
    let takenSince: number | undefined;
    let message: ReadyMessage;
    for (;;) {
      child = spawnDetached(context, { ...options, port });
      message = await readyMessage(child, options.dataDir);
      if (message.ready) break;
      await ended(child);
      if (unwanted || !message.error.isTaken) break;
      takenSince ??= performance.now();
      if (performance.now() - takenSince > START_TAKEN_MAX_MS) break;
      // One that takes no calls within a moment may be one that ends.
      const other = await poll(START_AGAIN_MS, async () => (unwanted ? null : runningPlatform(options.dataDir)));
      if (unwanted) break;
      if (!other) continue;
      unclaim();
      progress.done(`Another command started the platform at ${other.url}`);
      // The other command stores it when its platform takes calls already. There is none for whoever may not have it.
      await poll(START_AGAIN_MS, () => new Credentials(configDir(context.env)).embeddedKey(options.dataDir));
      return { url: other.url, pid: other.pid, firstKey: undefined, isKeyStored: false, started: false };
    }
    if (!message.ready) {
      const { code, message: text, help, where } = message.error;
      throw new SvcError(code, text, {
        help,
        where: code === "PLATFORM_START_FAILED" ? logPath(options.dataDir) : where,
      });
    }
    const { url, firstKey } = message;
    const unstored = firstKey && (await unstoredFor(context, options.dataDir, { url, apiKey: firstKey }));
    unclaim();
    if (unwanted) end();
    progress.done(`Platform started at ${url}`);
    if (unstored) context.terminal.warn(unstored);
    (await import("./unknown-settings.ts")).warnOfUnknown(context);
    warnOfNoexec(context.terminal, options.dataDir);
    if (message.missing?.length) context.terminal.note(missingIsolation(message.missing));
    return { url, pid: child.pid!, firstKey, isKeyStored: !unstored, started: true };
  } catch (error) {
    // The interrupt may have reached it, too: earlier than us, when it had not left our group yet.
    if (unwanted || child?.signalCode === "SIGINT") end();
    progress.done();
    throw error;
  }
}

/** Why the key could not be stored, which nobody else has: it must be shown all the same. */
async function unstoredFor({ env }: CliContext, dataDir: string, login: Login): Promise<string | undefined> {
  const saved = new Credentials(configDir(env)).saveEmbedded(dataDir, login);
  return saved.then(
    () => undefined,
    ({ message, where }: SvcError) => `${message} (${where})`,
  );
}

/** What is said beside the first key. */
export function keyNote({ isKeyStored }: StartedPlatform): string {
  return `(shown only now; ${isKeyStored ? "stored for your svc commands" : "not stored: set PLATFORM_API_KEY to it"})`;
}

export function missingIsolation(missing: readonly string[]): string {
  return `Workers are kept apart less than usual: this machine lacks ${missing.join(", ")} (docs/reference/isolation.md).`;
}

/** Undefined leaves the choice to the platform's own configuration. */
async function choosePort(context: CliContext, options: StartOptions): Promise<number | undefined> {
  if (!options.anyFreePort || context.env.SVC_PORT) return undefined;
  const { claimPort } = await import("../../server/port.ts");
  // 0: any, and what is wrong with the host the platform says itself.
  return claimPort(options.host ?? context.env.SVC_HOST ?? "127.0.0.1", PLATFORM_PORT_DEFAULT).catch(() => 0);
}

async function makeDataDir(dataDir: string): Promise<void> {
  try {
    makeFolder(dataDir, 0o700);
    await (await open(logPath(dataDir), "a", 0o600)).close();
  } catch (error) {
    if (lackOf(error) !== undefined) throw explained(error);
    throw new SvcError("DATA_DIRECTORY", `The data directory cannot be used: ${(error as Error).message}.`, {
      where: dataDir,
      help: "Choose another with --data-dir or SVC_DATA_DIR.",
      cause: error,
    });
  }
}

function spawnDetached(context: CliContext, options: StartOptions): ChildProcess {
  const command = ["platform", "start", "--foreground", "--data-dir", options.dataDir];
  const args = [...process.execArgv, ...NODE_FLAGS, mainFile(), ...command];
  if (options.port !== undefined) args.push("--port", String(options.port));
  if (options.host !== undefined) args.push("--host", options.host);
  if (options.gateways !== undefined) args.push("--gateways", String(options.gateways));
  if (options.emulateGpu) args.push("--emulate-gpu");
  if (options.durability !== undefined) args.push("--durability", options.durability);
  if (options.driver !== undefined) args.push("--driver", options.driver);
  // The caller's own key and platform are no business of the new platform.
  const { PLATFORM_API_KEY: _key, PLATFORM_URL: _url, ...env } = context.env;
  const log = openSync(logPath(options.dataDir), "a", 0o600);
  try {
    return spawn(process.execPath, args, {
      cwd: options.dataDir,
      env,
      detached: true,
      stdio: ["ignore", log, log, "ipc"],
    });
  } finally {
    closeSync(log);
  }
}

/** Resolves with the platform's own words; throws PLATFORM_START_FAILED when it ends or stays silent. */
async function readyMessage(child: ChildProcess, dataDir: string): Promise<ReadyMessage> {
  const silence = AbortSignal.timeout(PLATFORM_START_TIMEOUT_MS);
  const failed = (what: string, cause?: unknown) =>
    new SvcError("PLATFORM_START_FAILED", `The platform ${what}.`, {
      where: logPath(dataDir),
      help: "Its log says why.",
      cause,
    });
  try {
    return await new Promise<ReadyMessage>((resolve, reject) => {
      child.once("message", (message) => resolve(message as ReadyMessage));
      child.once("error", (error) => reject(failed(`could not be started: ${error.message}`, error)));
      child.once("exit", (code, signal) => reject(failed(`ended with ${signal ?? `code ${code}`} while it started`)));
      silence.addEventListener("abort", () => {
        child.kill("SIGKILL");
        reject(failed(`was not ready after ${PLATFORM_START_TIMEOUT_MS / 1000} s`));
      });
    });
  } finally {
    if (child.connected) child.disconnect();
    child.unref();
  }
}

/** A platform that could not start is gone before its error is shown: the next attempt meets nothing of it. */
async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  await once(child, "exit");
}

/** bin/svc.ts in a clone, bin/svc.js in an installed package. */
export function mainFile(): string {
  return fileURLToPath(new URL(`../../../bin/svc${extname(import.meta.url)}`, import.meta.url));
}
