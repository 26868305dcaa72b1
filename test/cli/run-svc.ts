/** The real command line as a child process, in directories of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after } from "node:test";
import { keepLog } from "../harness/test-logs.ts";
import { COMPILED, PROGRAM } from "../program.ts";
import { dropServersOf, serversEnv } from "../servers.ts";

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Sandbox {
  /** Empty directory to call svc in. */
  readonly cwd: string;
  readonly configDir: string;
  readonly dataDir: string;
  /** A clean environment with these directories in it. */
  readonly env: Readonly<Record<string, string>>;
  /** What Node is called with for these arguments of svc. */
  command(args: readonly string[]): string[];
  svc(args: readonly string[], options?: RunOptions): Promise<Outcome>;
}

export interface RunOptions {
  readonly cwd?: string;
  /** Added to a clean environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input; nothing by default. */
  readonly input?: string;
}

/** Removed, with a platform that runs in it, after the test (or file) that made it. */
export async function sandbox(): Promise<Sandbox> {
  const root = await mkdtemp(join(tmpdir(), "svc-cli-"));
  const cwd = await mkdtemp(join(root, "project-"));
  const configDir = join(root, "config");
  const dataDir = join(root, "data");
  const own = {
    PATH: process.env.PATH ?? "",
    HOME: root,
    ...COMPILED,
    SVC_CONFIG_DIR: configDir,
    SVC_DATA_DIR: dataDir,
    SVC_CACHE_DIR: join(root, "cache"),
    // A platform of whoever runs the tests may have the usual one.
    SVC_PORT: "0",
    ...(await serversEnv(dataDir, {})),
  };
  const svc = (args: readonly string[], options: RunOptions = {}) =>
    runSvc(args, { cwd: options.cwd ?? cwd, env: { ...own, ...options.env }, input: options.input });
  after(async () => {
    if (existsSync(join(dataDir, "platform.json"))) await svc(["platform", "stop", "--now"]);
    keepLog(join(dataDir, "platform.log"));
    await dropServersOf(dataDir);
    await rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  return { cwd, configDir, dataDir, env: own, command: (args) => [PROGRAM, ...args], svc };
}

async function runSvc(args: readonly string[], options: Required<Pick<RunOptions, "cwd" | "env">> & RunOptions) {
  const child = spawn(process.execPath, [PROGRAM, ...args], { cwd: options.cwd, env: options.env });
  child.stdin.on("error", () => {}).end(options.input ?? "");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}
