/** A real `svc run` in a process of its own. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import path from "node:path";
import type { TestContext } from "node:test";
import type { TestPlatform } from "../e2e/platform.ts";
import { endOf } from "../process-end.ts";
import { COMPILED, PROGRAM } from "../program.ts";

export interface RunningServer {
  readonly url: string;
  readonly pid: number;
  /** What the terminal has shown so far. */
  output(): string;
  /** Ctrl+C; the exit code. */
  stop(): Promise<number | null>;
}

export async function startSvcRun(
  t: TestContext,
  platform: TestPlatform,
  cwd: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<RunningServer> {
  const port = args.includes("--port") ? [] : ["--port", "0"];
  // Both streams in one pipe, as a terminal shows them: in two, what was said first may be read last.
  const command = ["-c", 'exec "$0" "$@" 2>&1', process.execPath, PROGRAM, "run", ...port, ...args];
  const child = spawn("sh", command, {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      CI: "1",
      NO_COLOR: "1",
      ...COMPILED,
      PLATFORM_URL: platform.url,
      PLATFORM_API_KEY: platform.key,
      SVC_CONFIG_DIR: path.join(platform.dir, "config"),
      ...env,
    },
  });
  const exited = endOf(child);
  const stop = () => {
    child.kill("SIGINT");
    return exited;
  };
  t.after(stop);
  let output = "";
  const listening = new Promise<string>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      const url = /Listening on (http:\/\/\S+:\d+)/.exec(output)?.[1];
      if (url !== undefined) resolve(url);
    });
  });
  const url = await Promise.race([listening, exited.then(() => undefined)]);
  assert.ok(url, `svc run ended:\n${output}`);
  return { url, pid: child.pid!, output: () => output, stop };
}
