/**
 * The preview's own platform, as a process of its own session so that Ctrl+C reaches this command alone. It ends with
 * this process: the channel between the two closes, however this one ends.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { SvcError } from "../../domain/errors.ts";
import { PLATFORM_START_TIMEOUT_MS, PREVIEW_STOP_MAX_MS } from "../../domain/limits.ts";
import { logPath } from "../platform/record.ts";
import { mainFile, type ReadyMessage } from "../platform/start.ts";
import type { Claim } from "./claim.ts";
import { type Network, previewLabels } from "./engine.ts";

type Environment = Readonly<Record<string, string | undefined>>;

interface PreviewPlatform {
  readonly url: string;
  readonly apiKey: string;
  /** Resolves when it has ended, for whatever reason. */
  readonly ended: Promise<void>;
  /** Ends it with everything it started; kills it when that takes too long. */
  stop(): Promise<void>;
  /** At once; what it started may stay. */
  kill(): void;
}

interface PlatformOptions {
  readonly dataDir: string;
  /** Environment of the command, and the keys of docs/reference/config.md on top of it. */
  readonly env: Environment;
  readonly keys: Environment;
}

/** Of the user's configuration: the rest is for a platform of another kind. */
const INHERITED = ["SVC_CPU_IMAGE", "SVC_GPU_IMAGE", "SVC_ISOLATION", "SVC_REQUEST_TIMEOUT_MS", "SVC_DEBUG"];

/** `onSpawn` gets the process before it is known whether it starts, so that it can be ended meanwhile. */
export async function startPreviewPlatform(
  options: PlatformOptions,
  onSpawn: (platform: Pick<PreviewPlatform, "stop" | "kill">) => void,
): Promise<PreviewPlatform> {
  const child = spawnPlatform(options);
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const kill = () => void child.kill("SIGKILL");
  const stop = async () => {
    child.kill("SIGQUIT");
    const timer = setTimeout(kill, PREVIEW_STOP_MAX_MS);
    await ended;
    clearTimeout(timer);
  };
  onSpawn({ stop, kill });
  const message = await readyMessage(child, ended, options.dataDir);
  if (!message.ready) {
    const { code, message: text, help } = message.error;
    throw new SvcError(code, text, {
      help: code === "PLATFORM_START_FAILED" ? await lastWords(options.dataDir) : help,
    });
  }
  return { url: message.url, apiKey: message.firstKey ?? "", ended, stop, kill };
}

function spawnPlatform({ dataDir, env, keys }: PlatformOptions): ChildProcess {
  const own = ([name]: [string, unknown]) => !/^(SVC|PLATFORM)_/.test(name) || INHERITED.includes(name);
  const inherited = Object.fromEntries(Object.entries(env).filter(own));
  const args = ["platform", "start", "--foreground", "--with-parent"];
  const log = openSync(logPath(dataDir), "a", 0o600);
  try {
    return spawn(process.execPath, [...process.execArgv, mainFile(), ...args], {
      cwd: dataDir,
      env: { ...inherited, ...keys },
      detached: true,
      stdio: ["ignore", log, log, "ipc"],
    });
  } finally {
    closeSync(log);
  }
}

async function readyMessage(child: ChildProcess, ended: Promise<void>, dataDir: string): Promise<ReadyMessage> {
  const signal = AbortSignal.timeout(PLATFORM_START_TIMEOUT_MS);
  try {
    const first = await Promise.race([once(child, "message", { signal }), ended]);
    if (first !== undefined) return first[0] as ReadyMessage;
  } catch (error) {
    throw await notStarted("was not ready in time", dataDir, error);
  }
  throw await notStarted("ended while it started", dataDir);
}

async function notStarted(what: string, dataDir: string, cause?: unknown): Promise<SvcError> {
  return new SvcError("PLATFORM_START_FAILED", `The preview's platform ${what}.`, {
    help: await lastWords(dataDir),
    cause,
  });
}

/** The end of its log, which goes with the preview. */
export async function lastWords(dataDir: string): Promise<string> {
  const text = await readFile(logPath(dataDir), "utf8").catch(() => "");
  const lines = text.trimEnd().split("\n").slice(-10);
  return text === "" ? "It said nothing." : `It said:\n${lines.join("\n")}`;
}

/** More than anybody declares: a preview has no quota, and promises whatever the endpoints ask for. */
const WITHOUT_BOUND = "100000";
const OVERCOMMIT = "1000";

/** Configuration of the preview's platform (docs/reference/config.md). */
export function platformKeys(claim: Claim, network: Network, endpoints: readonly string[]): Record<string, string> {
  return {
    SVC_DRIVER: "docker",
    SVC_DATA_DIR: claim.folder,
    SVC_HOST: "127.0.0.1",
    SVC_PORT: "0",
    SVC_WORKER_QUOTA: WITHOUT_BOUND,
    SVC_CPU_OVERCOMMIT: OVERCOMMIT,
    SVC_MEMORY_OVERCOMMIT: OVERCOMMIT,
    // An endpoint that asks for a GPU this machine has not runs on its CPU, and says so.
    SVC_EMULATE_GPU: "1",
    SVC_WEBHOOK_PRIVATE: "1",
    SVC_DOCKER_NETWORK: network.name,
    SVC_DOCKER_LABELS: pairs(Object.entries(previewLabels(claim))),
    SVC_DOCKER_HOSTS: pairs(endpoints.map((name) => [name, network.gateway])),
  };
}

function pairs(entries: readonly (readonly [string, string])[]): string {
  return entries.map(([key, value]) => `${key}=${value}`).join(",");
}
