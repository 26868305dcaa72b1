/** Bounded HTTP load on loopback by wrk (Debian package `wrk`). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { runProcess } from "../src/lib/run-process.ts";
import { median } from "./bench.ts";
import { eachUs, type Parts, processorTime } from "./processor-time.ts";

export interface Target {
  readonly url: string;
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Load {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
}

export async function requireWrk(): Promise<string> {
  const result = await runProcess("wrk", ["--version"]).catch(() => undefined);
  if (result === undefined) throw new Error("wrk is missing: apt-get install wrk");
  return result.stdout.split("\n")[0] ?? "wrk";
}

/** An answer that takes longer is a failure. */
const ANSWER_MAX_S = 30;

/** A load with what each request cost each part in processor time. */
export interface CountedLoad extends Load {
  readonly us: Readonly<Record<string, number>>;
}

/** As load, and what each of `parts` used meanwhile. */
export async function countedLoad(target: Target, parts: Parts, connections: number, seconds: number) {
  const spent = processorTime(parts);
  const done = await load(target, connections, seconds);
  return { ...done, us: eachUs(spent(), done.requests) } satisfies CountedLoad;
}

/** Throws when an answer was not 2xx: a fast error is not a result. */
export async function load(target: Target, connections: number, seconds: number): Promise<Load> {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  try {
    return await run(target, dir, connections, seconds);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function run(target: Target, dir: string, connections: number, seconds: number): Promise<Load> {
  const script = path.join(dir, "request.lua");
  const lines = [`wrk.method = ${JSON.stringify(target.method)}`];
  if (target.body !== "") {
    const file = path.join(dir, "body");
    writeFileSync(file, target.body);
    lines.push(`wrk.body = io.open(${JSON.stringify(file)}):read("*a")`);
  }
  for (const [name, value] of Object.entries(target.headers))
    lines.push(`wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`);
  writeFileSync(script, lines.join("\n"));
  const args = [
    "-t1",
    `-c${connections}`,
    `-d${seconds}s`,
    "--timeout",
    `${ANSWER_MAX_S}s`,
    "--latency",
    "-s",
    script,
    target.url,
  ];
  const { code, stdout, stderr } = await runProcess("wrk", args);
  if (code !== 0) throw new Error(`wrk failed: ${stderr}${stdout}`);
  const bad = Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0);
  const broken = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout);
  const errors = bad + (broken === null ? 0 : broken.slice(1).reduce((sum, n) => sum + Number(n), 0));
  if (errors > 0) throw new Error(`${errors} failed requests at ${target.url}:\n${stdout}`);
  return {
    requests: Number(/(\d+) requests in/.exec(stdout)?.[1]),
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p50Ms: milliseconds(/50%\s+([\d.]+)(us|ms|s|m)/.exec(stdout)),
    p99Ms: milliseconds(/99%\s+([\d.]+)(us|ms|s|m)/.exec(stdout)),
    errors,
  };
}

function milliseconds(match: RegExpExecArray | null): number {
  const factor = { us: 0.001, ms: 1, s: 1000, m: 60_000 }[match?.[2] as "us" | "ms" | "s" | "m"];
  return Number(match?.[1]) * factor;
}

/** Of each part, the median microseconds of a request. */
export function costFigures(name: string, loads: readonly CountedLoad[]): Record<string, number> {
  const parts = Object.keys(loads[0]!.us);
  return Object.fromEntries(
    parts.map((part) => [`${name} µs/request, ${part}`, median(loads.map(({ us }) => us[part]!))]),
  );
}
