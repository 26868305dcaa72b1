/** Programs a benchmark starts: peers, and a platform with a deployed project. Each stops with the benchmark. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { runProcess } from "../src/lib/run-process.ts";
import { ROOT as root, startPlatformProcess } from "../test/e2e/platform-process.ts";
import { freePort } from "../test/free-port.ts";
import { removeFolder } from "../test/remove-folder.ts";

export const CACHE = path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), ".cache"), "svc-bench");

export interface Peer {
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts a server; `args` gets a free port. Resolves when it accepts connections. */
export async function startServer(command: string, args: (port: number) => string[], cwd = root): Promise<Peer> {
  const port = await freePort();
  const child = spawn(command, args(port), { cwd, stdio: ["ignore", "ignore", "inherit"] });
  await listening(port, child);
  return { port, pid: child.pid!, stop: () => end(child, "SIGTERM") };
}

/** The same for a server of many processes, not all of which go when the first one does. */
export async function startServers(
  command: string,
  args: (port: number) => string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Peer> {
  const port = await freePort();
  const options = { cwd: root, env: { ...process.env, ...env }, stdio: "ignore", detached: true } as const;
  const child = spawn(command, args(port), options);
  const stop = async () => {
    child.kill("SIGTERM");
    await Promise.race([once(child, "exit"), delay(5_000)]);
    try {
      process.kill(-child.pid!, "SIGKILL");
    } catch {
      // None is left.
    }
  };
  try {
    await listening(port, child);
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, pid: child.pid!, stop };
}

async function listening(port: number, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 2400; attempt++) {
    if (child.exitCode !== null) throw new Error(`the peer ended with exit code ${child.exitCode}`);
    const socket = connect(port, "127.0.0.1");
    const open = await Promise.race([
      once(socket, "connect").then(() => true),
      once(socket, "error").then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (open) return;
    await delay(25);
  }
  throw new Error(`nothing listens on port ${port}`);
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

/** A Python environment with these packages, kept between runs. Resolves its bin folder. */
export async function pythonEnvironment(name: string, packages: readonly string[]): Promise<string> {
  // Another list of packages is another environment.
  const dir = path.join(CACHE, `${name}-${createHash("sha256").update(packages.join(" ")).digest("hex").slice(0, 8)}`);
  const bin = path.join(dir, "bin");
  if (existsSync(path.join(dir, "ready"))) return bin;
  mkdirSync(CACHE, { recursive: true });
  for (const [command, args] of [
    ["python3", ["-m", "venv", dir]],
    [path.join(bin, "python"), ["-m", "pip", "install", "--quiet", ...packages]],
  ] as const) {
    const result = await runProcess(command, args);
    if (result.code !== 0) throw new Error(`${command} ${args.join(" ")}: ${result.stderr}`);
  }
  writeFileSync(path.join(dir, "ready"), "");
  return bin;
}

/** Of a package in such an environment. */
export async function installedVersion(bin: string, name: string): Promise<string | undefined> {
  const { stdout } = await runProcess(path.join(bin, "python"), ["-m", "pip", "freeze"]);
  return new RegExp(`^${name}==(.*)$`, "m").exec(stdout)?.[1];
}

/** A server may listen a while before what it serves is there: resolves when this is answered 200. */
export async function untilAnswered(url: string, init: RequestInit): Promise<void> {
  for (let attempt = 0; attempt < 600; attempt++) {
    const status = await fetch(url, init).then(
      (response) => response.status,
      () => 0,
    );
    if (status === 200) return;
    await delay(100);
  }
  throw new Error(`${url} does not answer`);
}

export interface BenchPlatform {
  readonly url: string;
  readonly key: string;
  /** Another after `restart`. */
  readonly pid: number;
  readonly dataDir: string;
  /** Deploys these files and resolves the endpoints' URLs by name. */
  deploy(files: Readonly<Record<string, string>>): Promise<Record<string, string>>;
  /** GraphQL; throws on errors. */
  query<T>(document: string): Promise<T>;
  workerPid(workerId: string): number | undefined;
  /** Of an endpoint, those that run at the moment. */
  workerPids(endpoint: string): Promise<number[]>;
  /** Ends it, calls `between`, and starts it again on the same port. Milliseconds until it listens again. */
  restart(between: () => void): Promise<number>;
  stop(): Promise<void>;
}

export async function startPlatform(env: Readonly<Record<string, string>> = {}): Promise<BenchPlatform> {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const dataDir = path.join(dir, "data");
  const pids = new Map<string, number>();
  const start = (port: string) =>
    startPlatformProcess({
      dataDir,
      port,
      // As bin/svc does: code that was compiled once is kept.
      env: { NODE_COMPILE_CACHE: path.join(CACHE, "compiled"), ...process.env, ...env },
      onLogLine: (line) => {
        const started = / worker started worker=(\S+) pid=(\d+)/.exec(line);
        if (started !== null) pids.set(started[1]!, Number(started[2]));
      },
    });
  let running = await start("0");
  const { url, firstKey: key = "" } = running;
  const query: BenchPlatform["query"] = async (document) => {
    const answer = await fetch(`${url}/graphql?api_key=${key}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: document }),
    });
    const { data, errors } = (await answer.json()) as { data: never; errors?: unknown };
    if (errors !== undefined) throw new Error(JSON.stringify(errors));
    return data;
  };
  return {
    url,
    key,
    get pid() {
      return running.pid;
    },
    dataDir,
    deploy: async (files) => {
      const project = mkdtempSync(path.join(dir, "project-"));
      for (const [file, text] of Object.entries(files)) writeFileSync(path.join(project, file), text);
      const cliEnv = {
        ...process.env,
        PLATFORM_URL: url,
        PLATFORM_API_KEY: key,
        SVC_CONFIG_DIR: path.join(dir, "config"),
      };
      const result = await runProcess(path.join(root, "bin/svc"), ["deploy", "--app", "bench"], {
        cwd: project,
        env: cliEnv,
      });
      if (result.code !== 0) throw new Error(result.stderr);
      const { myself } = await query<{ myself: { endpoints: { name: string; url: string }[] } }>(
        "{ myself { endpoints { name url } } }",
      );
      return Object.fromEntries(myself.endpoints.map((endpoint) => [endpoint.name, endpoint.url]));
    },
    query,
    workerPid: (workerId) => pids.get(workerId),
    workerPids: async (endpoint) => {
      const { myself } = await query<{ myself: { endpoints: { name: string; pods: { id: string }[] }[] } }>(
        "{ myself { endpoints { name pods { id } } } }",
      );
      const pods = myself.endpoints.find(({ name }) => name === endpoint)?.pods ?? [];
      return pods.flatMap(({ id }) => pids.get(id) ?? []);
    },
    restart: async (between) => {
      await running.end("SIGQUIT");
      between();
      const began = performance.now();
      running = await start(new URL(url).port);
      return performance.now() - began;
    },
    stop: async () => {
      await running.end("SIGQUIT");
      await removeFolder(dir);
    },
  };
}
