import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { SvcError } from "../../domain/errors.ts";
import { isRunning } from "../../lib/start-time.ts";

const PROBE_MS = 1_000;

/** `<data>/platform.json`: written by the platform when it listens, removed when it stops. */
export interface PlatformRecord {
  readonly pid: number;
  readonly url: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly version: string;
  /** It listens there, wherever its URL leads; not said by versions up to 0.1.0. */
  readonly port?: number;
  /** Where this machine reaches it; not said by versions up to 0.1.0. */
  readonly localUrl?: string;
  /** It makes snapshots of its databases when it is asked. */
  readonly snapshots?: boolean;
  /** Processes that take calls, how many there are to be and those that listen; undefined: it takes them itself. */
  readonly gateways?: { readonly wanted: number; readonly pids: readonly number[] };
  /** Its pools of Pods, and what each waits for; undefined: there are none. */
  readonly pools?: readonly {
    readonly name: string;
    readonly pods: number;
    readonly joined: number;
    readonly max: number;
    readonly trouble?: string;
  }[];
  /** What its PostgreSQL is called; undefined: all is in the data directory. */
  readonly database?: string;
  /** What survives what, of its commits. */
  readonly commits?: string;
  /** Its bucket with the prefix; undefined: layers are in the data directory. */
  readonly bucket?: string;
  /** Where what workers print is kept, and how long; undefined: in files. */
  readonly logs?: string;
  /** Another platform has its database: it takes calls for that. */
  readonly waits?: boolean;
  /** With a database: the socket where it says which platforms are on that. */
  readonly replicas?: string;
  /** A service manager started it, and would start it again. */
  readonly service?: boolean;
}

/**
 * The platform of a data directory; undefined when none takes calls. A record that a crash left behind does not
 * count, also when its process id belongs to another program by now.
 */
export async function runningPlatform(dataDir: string): Promise<PlatformRecord | undefined> {
  const record = await readRecord(dataDir);
  if (record === undefined || !isRunning(record.pid)) return undefined;
  return (await listens(record)) ? record : undefined;
}

/** As runningPlatform, but also one that drains and takes no calls any more. */
export async function livingPlatform(dataDir: string): Promise<PlatformRecord | undefined> {
  const record = await readRecord(dataDir);
  if (record === undefined || !isRunning(record.pid)) return undefined;
  return (await listens(record)) || (await isPlatformProcess(record.pid)) ? record : undefined;
}

/** Throws CONFLICT while a platform runs there, also one that drains. */
export async function requireStopped(dataDir: string, what: string): Promise<void> {
  const running = await livingPlatform(dataDir);
  if (running === undefined) return;
  throw new SvcError("CONFLICT", `The platform runs (process ${running.pid}) and uses ${what}.`, {
    help: "Stop it first: svc platform stop.",
  });
}

export function logPath(dataDir: string): string {
  return join(dataDir, "platform.log");
}

async function readRecord(dataDir: string): Promise<PlatformRecord | undefined> {
  try {
    return JSON.parse(await readFile(join(dataDir, "platform.json"), "utf8")) as PlatformRecord;
  } catch {
    return undefined;
  }
}

/** False only when the connection is refused: a busy platform is a running one. */
function listens(record: PlatformRecord): Promise<boolean> {
  const url = new URL(record.localUrl ?? record.url);
  const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  const socket = connect({ port, host: url.hostname.replace(/^\[|\]$/g, ""), timeout: PROBE_MS });
  return new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("timeout", () => resolve(true));
    socket.once("error", () => resolve(false));
  }).finally(() => socket.destroy());
}

async function isPlatformProcess(pid: number): Promise<boolean> {
  const words = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => undefined);
  if (words !== undefined) return words.includes("platform\0start");
  return new Promise((resolve) => {
    execFile("ps", ["-p", String(pid), "-o", "args="], (error, stdout) => {
      resolve(error === null && stdout.includes("platform start"));
    });
  });
}
