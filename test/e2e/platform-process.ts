/** A real platform in a process of its own, for end-to-end tests and benchmarks. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { NODE_FLAGS } from "../../src/cli/platform/node-flags.ts";
import { LauncherProcess } from "../../src/drivers/launcher-process.ts";
import { testLog } from "../harness/test-logs.ts";
import { programFor } from "../program.ts";
import { serversEnv } from "../servers.ts";

export const ROOT = path.resolve(import.meta.dirname, "../..");
const LOG_LINES_KEPT = 200;

export interface PlatformProcess {
  readonly url: string;
  readonly pid: number;
  /** Only at the first start of its data directory. */
  readonly firstKey: string | undefined;
  /** Sends the signal and waits for the end. SIGQUIT stops workers too, also of one that has ended by itself; SIGKILL lets them live on. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** In runs with gateways (run.ts) platforms take calls by so many processes. */
function gatewaysEnv(): Record<string, string> {
  const { SVC_TEST_GATEWAYS: count } = process.env;
  return count === undefined ? {} : { SVC_GATEWAYS: count };
}

interface PlatformOptions {
  readonly dataDir: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly port?: string;
  readonly onLogLine?: (line: string) => void;
  /** Signals of the terminal do not reach it: whoever started it ends it. */
  readonly ownGroup?: boolean;
}

/** Resolves when it listens; rejects with its message, or its last lines when it ended without one. */
export async function startPlatformProcess(options: PlatformOptions): Promise<PlatformProcess> {
  const { dataDir, port = "0", onLogLine = () => {}, ownGroup = false } = options;
  const env = { ...gatewaysEnv(), ...options.env, ...(await serversEnv(dataDir, options.env)) };
  // As `svc platform start` starts it in the background.
  const start = [...NODE_FLAGS, programFor(env), "platform", "start", "--foreground"];
  const child = spawn(process.execPath, [...start, "--port", port, "--data-dir", dataDir], {
    env,
    detached: ownGroup,
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const log: string[] = [];
  const kept = testLog("platform");
  createInterface(child.stderr!).on("line", (line) => {
    if (log.push(line) > LOG_LINES_KEPT) log.shift();
    kept(`${line}\n`);
    onLogLine(line);
  });
  const said = (code: unknown) => `the platform exited with ${code}:\n${log.join("\n")}`;
  const message = (await Promise.race([
    once(child, "message").then(([value]) => value),
    once(child, "exit").then(([code]) => ({ ready: false, error: { message: `the platform exited with ${code}` } })),
  ])) as { ready: boolean; url: string; firstKey?: string; error?: { message: string } };
  // What it wrote last may arrive after its end; who inherited the pipe may hold it open.
  if (!message.ready) await Promise.race([once(child.stderr!, "end"), delay(500)]);
  if (!message.ready) throw new Error(`${message.error?.message ?? "no message"}\n${log.join("\n")}`);
  // A platform that ends by itself is why a test fails: say so.
  child.on("exit", (code) => {
    if (code !== 0 && code !== null) process.stderr.write(`${said(code)}\n`);
  });
  return {
    url: message.url,
    pid: child.pid!,
    firstKey: message.firstKey,
    end: async (signal) => {
      if (child.exitCode !== null || child.signalCode !== null) {
        // It ended by itself: its launcher lives on, and with it the pipe, which would keep this process here.
        if (signal !== "SIGKILL") LauncherProcess.earlier(dataDir)?.kill();
        return;
      }
      const ended = once(child, "exit");
      child.kill(signal);
      // A test that failed leaves it standing still.
      child.kill("SIGCONT");
      await ended;
    },
  };
}
