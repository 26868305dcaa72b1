/** svc as a command that goes on while a test looks at what it says. */
import { spawn } from "node:child_process";
import type { TestContext } from "node:test";
import { endOf } from "./process-end.ts";
import { COMPILED, PROGRAM } from "./program.ts";

export interface StartedCommand {
  /** All of it so far. */
  readonly said: { readonly out: string; readonly err: string };
  readonly ended: Promise<number | null>;
  kill(signal: NodeJS.Signals): void;
}

/** Killed at the end of the test, if it has not ended before. */
export function startCommand(
  t: TestContext,
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Readonly<Record<string, string>> },
): StartedCommand {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, CI: "1", ...COMPILED, ...env },
  });
  t.after(() => child.kill("SIGKILL"));
  const said = { out: "", err: "" };
  for (const [name, stream] of [
    ["out", child.stdout],
    ["err", child.stderr],
  ] as const) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      said[name] += text;
    });
  }
  return { said, ended: endOf(child), kill: (signal) => void child.kill(signal) };
}
