/** A real platform, and the real CLI beside it, for end-to-end tests. */
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { podsOf } from "../pods.ts";
import { COMPILED, PROGRAM } from "../program.ts";
import { removeFolder } from "../remove-folder.ts";
import { dropServersOf } from "../servers.ts";
import { type PlatformProcess, ROOT, startPlatformProcess } from "./platform-process.ts";

export { ROOT };

export interface TestPlatform {
  readonly url: string;
  readonly key: string;
  readonly dir: string;
  readonly dataDir: string;
  /** A folder that its workers may write to, whoever they run as. */
  readonly shared: string;
  readonly pid: number;
  /** Runs the CLI against this platform. */
  svc(
    args: readonly string[],
    options?: { cwd?: string; env?: Record<string, string>; input?: string },
  ): Promise<CliResult>;
  /** GraphQL; throws on errors. */
  query<T>(document: string, variables?: object): Promise<T>;
  endpoints(): Promise<{ id: string; name: string; url: string; kind: string }[]>;
  call(
    url: string,
    options?: { method?: string; body?: unknown; key?: string | null; headers?: Record<string, string> },
  ): Promise<Answer>;
  /** SIGKILL to the platform alone: launcher and workers live on. */
  kill(): Promise<void>;
  /** Starts it again on the same data directory, and on the same port unless another is named; "0" is any. */
  restart(port?: string): Promise<TestPlatform>;
  stop(): Promise<void>;
}

/**
 * Waits until `svc logs ...args` shows all of these. What a worker prints comes by its pipe, its answer by another way:
 * either may be first.
 */
export function hasLogged(on: Pick<TestPlatform, "svc">, cwd: string, args: string[], ...wanted: RegExp[]) {
  return eventually(async () => {
    const { stdout } = await on.svc(["logs", ...args], { cwd });
    for (const line of wanted) assert.match(stdout, line);
  });
}

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  readonly json: any;
}

/** A folder that goes away with the test: last of all, as a platform whose data lie there must end before. */
export function tempDir(t: TestContext): string {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-e2e-"));
  // Hooks run in the order in which they were given.
  t.after(() => t.after(() => removeFolder(dir)));
  return dir;
}

/** Writes `files` below a new folder of the test's own. */
export function project(t: TestContext, files: Record<string, string>, name = "app"): string {
  const dir = path.join(tempDir(t), name);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
    writeFileSync(path.join(dir, file), text);
  }
  return dir;
}

export async function svc(
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string>; input?: string } = {},
): Promise<CliResult> {
  return runProcess(process.execPath, [PROGRAM, ...args], {
    cwd: options.cwd,
    input: options.input,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, CI: "1", NO_COLOR: "1", ...COMPILED, ...options.env },
  });
}

export async function startPlatform(t: TestContext, env: Record<string, string> = {}): Promise<TestPlatform> {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-e2e-"));
  const shared = path.join(dir, "shared");
  const all = { SVC_EMULATE_GPU: "1", SVC_WORKER_PATHS: shared, ...env };
  const pods = await podsOf(dir, all);
  let running: TestPlatform | undefined;
  // The folder goes last: a platform that still stops writes to it.
  t.after(async () => {
    await running?.stop();
    await pods?.stop();
    await dropServersOf(path.join(dir, "data"));
    await removeFolder(dir);
  });
  const begin = async (key: string | undefined, port: string) => {
    running = await launch(dir, shared, { ...all, ...pods?.env }, key, port);
    pods?.at(running.url);
    return running;
  };
  // It starts again on the same.
  const platform = await begin(undefined, String(await freePort()));
  return {
    ...platform,
    restart: async (port = new URL(platform.url).port) => {
      return { ...(await begin(platform.key, port)), restart: platform.restart };
    },
  };
}

async function launch(
  dir: string,
  shared: string,
  env: Record<string, string>,
  knownKey: string | undefined,
  port: string,
): Promise<TestPlatform> {
  const dataDir = path.join(dir, "data");
  mkdirSync(shared, { recursive: true });
  chmodSync(shared, 0o777);
  const childEnv = { PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, ...env };
  const running = await startPlatformProcess({ dataDir, env: childEnv, port });
  const key = knownKey ?? running.firstKey;
  assert.ok(key, "the first start shows a key");
  return control(running, dir, dataDir, key);
}

function control({ url, pid, end }: PlatformProcess, dir: string, dataDir: string, key: string): TestPlatform {
  const call: TestPlatform["call"] = async (target, options = {}) => {
    const headers: Record<string, string> = { "content-type": "application/json", ...options.headers };
    if (options.key !== null) headers.authorization = `Bearer ${options.key ?? key}`;
    const body = options.body === undefined ? undefined : JSON.stringify(options.body);
    const method = options.method ?? (body === undefined ? "GET" : "POST");
    const response = await fetch(new URL(target, url), { method, headers, body });
    const text = await response.text();
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {}
    return { status: response.status, headers: response.headers, text, json };
  };
  const query: TestPlatform["query"] = async (document, variables) => {
    const answer = await call("/graphql", { body: { query: document, variables } });
    assert.equal(answer.json?.errors, undefined, answer.text);
    return answer.json.data;
  };
  return {
    url,
    key,
    dir,
    dataDir,
    shared: path.join(dir, "shared"),
    pid,
    call,
    query,
    svc: (args, options = {}) =>
      svc(args, {
        ...options,
        env: { PLATFORM_URL: url, PLATFORM_API_KEY: key, SVC_CONFIG_DIR: path.join(dir, "config"), ...options.env },
      }),
    endpoints: async () =>
      (await query<{ myself: { endpoints: [] } }>("{ myself { endpoints { id name url kind } } }")).myself.endpoints,
    kill: () => end("SIGKILL"),
    restart: () => Promise.reject(new Error("restart through the platform that startPlatform returned")),
    stop: () => end("SIGQUIT"),
  };
}
