/**
 * Runs one test file in a session and temp folder of its own, and comes back whatever the file does:
 *
 *   guard.py (subreaper, limit) ─▶ node --test-reporter=reporter.ts FILE ─▶ what the tests start
 *
 * The reporter appends to a file what became of each test. What the file leaves behind is ended or removed, and named as a
 * failure: processes (by the guard), mounts, containers and folders below the temp folder.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import type { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import { runProcess } from "../../src/lib/run-process.ts";
import { removeFolder } from "../remove-folder.ts";
import type { OrdinaryUser } from "./ordinary-user.ts";
import type { ReportedTest } from "./reporter.ts";
import { recentLogs } from "./test-logs.ts";

export interface FileLimits {
  /** So long a file may take in all. */
  readonly fileMaxMs: number;
  /** Of each test that names no other. */
  readonly testMaxMs: number;
  /** After its last test a file has so long to end. */
  readonly endMaxMs: number;
  /** Processes may outlive their file by so much: they were told to end. */
  readonly leaveMaxMs: number;
}

export const LIMITS: FileLimits = { fileMaxMs: 600_000, testMaxMs: 300_000, endMaxMs: 60_000, leaveMaxMs: 15_000 };

export interface FileResult {
  readonly passed: number;
  readonly skipped: readonly { readonly name: string; readonly reason: string }[];
  readonly failures: readonly { readonly file: string; readonly name: string; readonly text: string }[];
  readonly seconds: number;
  /** Processor time of the file and all that it started, but for what the Docker daemon did. */
  readonly cpuSeconds: number;
}

/** What the guard says at the end. */
interface Ending {
  readonly code: number | null;
  readonly why: "ended" | "limit" | "lingered" | "stopped";
  readonly left: readonly { readonly pid: number; readonly command: string }[];
  readonly cpu_s: number;
}

const HERE = import.meta.dirname;
const OUTPUT_KEPT_CHARS = 16_000;
const OUTPUT_LINES_SHOWN = 40;
const ENTRIES_SHOWN = 20;
/** Kept by Node and by tools for their next run: no test's own. */
const CACHES = /^(node-compile-cache|jiti|v8-compile-cache.*)$/;

/** `folder` is new and the runner's own. Aborting `signal` ends the file with all it started. Runs as `user`, when that is given, with `more` environment. */
export async function runFile(
  file: string,
  folder: string,
  limits: FileLimits = LIMITS,
  signal?: AbortSignal,
  user?: OrdinaryUser,
  more: NodeJS.ProcessEnv = {},
): Promise<FileResult> {
  const started = performance.now();
  const temp = path.join(folder, "t");
  const logs = path.join(folder, "logs");
  const report = path.join(folder, "report");
  for (const dir of [temp, logs]) mkdirSync(dir, { recursive: true });
  if (user !== undefined) for (const dir of [folder, temp, logs]) chownSync(dir, user.uid, user.gid);
  // A worker may be another user.
  chmodSync(folder, 0o755);
  const minutes = minutesOf(file);
  const limit = minutes === undefined ? limits.fileMaxMs : minutes * 60_000;
  const env = { ...(user?.env ?? process.env), ...more, TMPDIR: temp, SVC_TEST_LOGS: logs, SVC_TEST_REPORT: report };
  const { ending, output } = await guarded(file, { ...limits, fileMaxMs: limit }, env, signal, user);
  const tests = readReport(report);
  const failures = tests
    .filter(({ kind }) => kind === "failed")
    .map(({ name, file: where, text = "", logs: said = "" }) => ({
      file: where || file,
      name,
      text: [text, said].filter(Boolean).join("\n\n"),
    }));
  const wrong = problemOf(ending, tests, limit, limits.endMaxMs, failures.length);
  if (wrong !== undefined) {
    const last = output.trimEnd().split("\n").slice(-OUTPUT_LINES_SHOWN).join("\n");
    const said = recentLogs(limit, [logs, temp]);
    failures.push({
      file,
      name: wrong,
      text: [ending.left.map(processLine).join("\n"), last, said].filter(Boolean).join("\n\n"),
    });
  }
  const left = [
    ...(ending.why === "ended" ? ending.left.map(processLine) : []),
    ...(await endMounts(temp)),
    ...(/docker/i.test(readFileSync(file, "utf8")) ? await endContainers(temp) : []),
    ...readdirSync(temp)
      .filter((name) => !CACHES.test(name))
      .map((name) => `the folder ${described(path.join(temp, name))}`),
  ];
  await removeAll(folder).catch((error: Error) => left.push(`what cannot be removed: ${error.message}`));
  // What a killed file could not clean up is no fault of its own.
  if (left.length > 0 && wrong === undefined)
    failures.push({ file, name: "left something behind", text: left.join("\n") });
  return {
    passed: tests.filter(({ kind }) => kind === "passed").length,
    skipped: tests.flatMap(({ kind, name, text = "" }) => (kind === "skipped" ? [{ name, reason: text }] : [])),
    failures,
    seconds: (performance.now() - started) / 1000,
    cpuSeconds: ending.cpu_s,
  };
}

/** With the first of what lies below it: that says whose it is. */
function described(folder: string): string {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return folder;
  const found = readdirSync(folder, { recursive: true }).slice(0, ENTRIES_SHOWN);
  return found.length === 0 ? folder : `${folder} with ${found.join(", ")}`;
}

/** Also folders that a test closed to itself. */
async function removeAll(folder: string): Promise<void> {
  await removeFolder(folder).catch(async () => {
    await runProcess("chmod", ["-R", "u+rwx", folder]);
    await removeFolder(folder);
  });
}

async function guarded(
  file: string,
  limits: FileLimits,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
  user: OrdinaryUser | undefined,
) {
  const seconds = [limits.fileMaxMs, limits.endMaxMs, limits.leaveMaxMs].map((ms) => String(ms / 1000));
  const guard = ["-I", "-S", path.join(HERE, "guard.py"), ...seconds];
  const node = [
    "--disable-warning=ExperimentalWarning",
    `--test-reporter=${path.join(HERE, "reporter.ts")}`,
    `--import=${path.join(HERE, "when-over.ts")}`,
  ];
  const args = [...guard, process.execPath, ...node, "--test-reporter-destination=stdout"];
  const child = spawn("python3", [...args, `--test-timeout=${limits.testMaxMs}`, file], {
    env,
    // A session of its own: Ctrl+C reaches the runner alone, and that ends the file.
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    ...(user && { uid: user.uid, gid: user.gid }),
  });
  const stop = () => child.kill("SIGTERM");
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream!.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-OUTPUT_KEPT_CHARS);
    });
  }
  const exit = once(child, "exit");
  const said = await json(child.stdio[3] as Readable).catch(() => undefined);
  await exit;
  signal?.removeEventListener("abort", stop);
  const ending = (said ?? { code: null, why: "stopped", left: [], cpu_s: 0 }) as Ending;
  return { ending, output };
}

/** Why the file as a whole failed, if it did. */
function problemOf(
  { why, code }: Ending,
  tests: readonly ReportedTest[],
  limitMs: number,
  endMs: number,
  failed: number,
): string | undefined {
  if (why === "lingered") return `did not end within ${endMs / 1000} s of its last test`;
  if (why === "limit") return `was killed after ${limitMs / 1000} s, in: ${underWay(tests)}`;
  if (why === "stopped") return `was stopped, in: ${underWay(tests)}`;
  if (code !== 0 && failed === 0) return `ended with exit code ${code}, in: ${underWay(tests)}`;
  return undefined;
}

function underWay(tests: readonly ReportedTest[]): string {
  const over = new Set(tests.filter(({ kind }) => kind !== "started").map(({ name }) => name));
  const names = tests.filter(({ kind, name }) => kind === "started" && !over.has(name)).map(({ name }) => `"${name}"`);
  return names.length === 0 ? "no test" : names.join(", ");
}

function readReport(report: string): ReportedTest[] {
  if (!existsSync(report)) return [];
  const lines = readFileSync(report, "utf8").split("\n").filter(Boolean);
  return lines.flatMap((line) => {
    try {
      return [JSON.parse(line) as ReportedTest];
    } catch {
      return []; // Killed while it wrote this line.
    }
  });
}

/** A file that needs longer says so in a line of its own: "// May take N minutes." */
export function minutesOf(file: string): number | undefined {
  const minutes = /^\/\/ May take (\d+) minutes\.$/m.exec(readFileSync(file, "utf8"))?.[1];
  return minutes === undefined ? undefined : Number(minutes);
}

function processLine({ pid, command }: Ending["left"][number]): string {
  return `the process ${pid}: ${command}`;
}

async function endMounts(temp: string): Promise<string[]> {
  const mounted = readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[1]?.replaceAll("\\040", " ") ?? "")
    .filter((point) => point.startsWith(`${temp}/`));
  for (const point of mounted.toReversed()) await runProcess("umount", ["--lazy", point]).catch(() => undefined);
  return mounted.map((point) => `the mount ${point}`);
}

async function endContainers(temp: string): Promise<string[]> {
  const format = '{{.ID}} {{.Label "svc.data-dir"}} {{.Label "svc.preview.owner"}}';
  const listed = await runProcess("docker", ["ps", "--all", "--format", format], {
    signal: AbortSignal.timeout(20_000),
  }).catch(() => undefined);
  const ours = (listed?.stdout ?? "").split("\n").filter((line) => line.includes(`${temp}/`));
  for (const line of ours) await runProcess("docker", ["rm", "--force", line.split(" ")[0]!]);
  return ours.map((line) => `the container ${line}`);
}
