/**
 * Jobs with side effects while workers and the platform are killed at random; then every accepted id is looked for.
 * Each execution appends a line with its number to a file, so that lost and repeated effects can be counted.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { hostPid, OWN_PID } from "../host-pid.ts";
import type { Answer, TestPlatform } from "./platform.ts";

const SUBMITTERS = 16;
const ASKERS = 16;
const KILLS_MAX = 25;

export interface ChaosOptions {
  readonly platform: TestPlatform;
  readonly jobs: number;
  /** About so long passes between two kills; longer, until a part of the jobs was executed: a slow machine comes to an end, too. */
  readonly killEveryMs: number;
  /** Of the kills, this share hits a worker; the others the platform. */
  readonly workerShare: number;
  /** Writes a project below a new folder and resolves it. */
  readonly project: (files: Record<string, string>) => string;
  /** From 0 to 1. */
  readonly random: () => number;
}

export interface ChaosReport {
  readonly accepted: number;
  /** Accepted ids that are unknown, never became final, or are COMPLETED without their effect or output. */
  readonly lost: readonly string[];
  /** Executions beyond the first of a job. */
  readonly duplicates: number;
  /** Jobs whose worker was killed twice: FAILED, and completed after a retry by the caller. */
  readonly failedFirst: number;
  readonly workerKills: number;
  readonly platformKills: number;
  readonly seconds: number;
}

const worker = (effects: string) => `
import os, time
from svc import Endpoint

OUT = os.open(${JSON.stringify(effects)}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

def started_at():
    with open("/proc/self/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[19]

@Endpoint(name="effect", workers=(0, 4))
def effect(n):
    os.write(OUT, (f"{n} " + ${OWN_PID} + f" {started_at()}\\n").encode())
    time.sleep(0.002)
    return n
`;

export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const { platform, jobs, project } = options;
  const effects = path.join(platform.shared, "effects.txt");
  const deploy = await platform.svc(["deploy"], { cwd: project({ "worker.py": worker(effects) }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const target = new Target(platform, endpoint!.id);
  const started = performance.now();
  const done = new AbortController();
  const killing = kills(options, target, effects, done.signal);
  const ids = new Map<string, number>();
  let next = 0;
  await inParallel(SUBMITTERS, async () => {
    while (next < jobs) {
      const n = next++;
      // The same key again after a broken connection: whether the first try was accepted cannot be known.
      const { json } = await target.call("/run", { body: { input: { n } }, headers: { "idempotency-key": String(n) } });
      ids.set(json.id, n);
    }
  });
  // The kills go on until half of what is left is done.
  const left = await target.open();
  while ((await target.open()) > left / 2) await delay(100);
  done.abort();
  const { workerKills, platformKills } = await killing;
  const { lost, failedFirst } = await reconcile(target, ids, effects);
  const seconds = (performance.now() - started) / 1000;
  const duplicates = [...counted(effects).values()].reduce((sum, count) => sum + count - 1, 0);
  return { accepted: ids.size, lost, duplicates, failedFirst, workerKills, platformKills, seconds };
}

/** The platform as its callers see it: away at times, each time at another port. */
class Target {
  readonly #first: TestPlatform;
  readonly #id: string;
  #current: Promise<TestPlatform>;

  constructor(platform: TestPlatform, id: string) {
    this.#first = platform;
    this.#id = id;
    this.#current = Promise.resolve(platform);
  }

  /** Asks until it is answered 200 or 404. */
  async call(route: string, options: { body?: unknown; headers?: Record<string, string>; method?: string } = {}) {
    for (;;) {
      const current = await this.#current;
      const answer = await current.call(`${current.url}/v2/${this.#id}${route}`, options).catch(() => undefined);
      if (answer?.status === 200 || answer?.status === 404) return answer as Answer;
      if (answer !== undefined && answer.status !== 503) assert.fail(`${route}: ${answer.status} ${answer.text}`);
      await delay(5);
    }
  }

  /** Jobs that are not final. */
  async open(): Promise<number> {
    const { jobs } = (await this.call("/health")).json;
    return jobs.inQueue + jobs.inProgress;
  }

  async killPlatform(awayMs: number): Promise<void> {
    const current = await this.#current;
    await current.kill();
    this.#current = delay(awayMs).then(() => this.#first.restart());
    await this.#current;
  }
}

async function kills(
  { jobs, killEveryMs, workerShare, random }: ChaosOptions,
  target: Target,
  effects: string,
  done: AbortSignal,
) {
  const counts = { workerKills: 0, platformKills: 0 };
  while (!done.aborted) {
    const enough = executions(effects) + jobs / KILLS_MAX;
    await delay(killEveryMs * (0.5 + random()));
    while (!done.aborted && executions(effects) < enough) await delay(20);
    if (done.aborted && counts.workerKills + counts.platformKills > 0) break;
    if (random() < workerShare) counts.workerKills += killWorker(effects, random) ? 1 : 0;
    else {
      await target.killPlatform(200 * random());
      counts.platformKills++;
    }
  }
  return counts;
}

/** One of those that worked last, if it is still the same process. */
function killWorker(effects: string, random: () => number): boolean {
  const lines = read(effects).trimEnd().split("\n").slice(-200);
  const line = lines[Math.floor(random() * lines.length)] ?? "";
  const [, namespace, inner, startedAt] = line.split(" ");
  if (startedAt === undefined) return false;
  try {
    const pid = hostPid(`${namespace} ${inner}`);
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    if (stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] !== startedAt) return false;
    return process.kill(Number(pid), "SIGKILL");
  } catch {
    return false; // gone already
  }
}

async function reconcile(target: Target, ids: ReadonlyMap<string, number>, effects: string) {
  const lost: string[] = [];
  let failedFirst = 0;
  const all = [...ids];
  await inParallel(ASKERS, async () => {
    for (let entry = all.pop(); entry !== undefined; entry = all.pop()) {
      const [id, n] = entry;
      let { json } = await target.call(`/status-sync/${id}?wait=60000`);
      for (let tries = 0; json.status === "FAILED" && tries < 5; tries++) {
        if (tries === 0) failedFirst++;
        await target.call(`/retry/${id}`, { method: "POST" });
        ({ json } = await target.call(`/status-sync/${id}?wait=60000`));
      }
      if (json.status !== "COMPLETED" || json.output !== n) lost.push(`${id}: ${JSON.stringify(json)}`);
    }
  });
  const happened = counted(effects);
  for (const [id, n] of ids) if (!happened.has(n)) lost.push(`${id}: its effect never happened`);
  return { lost, failedFirst };
}

/** Number → how often it was executed. */
function counted(effects: string): Map<number, number> {
  const counts = new Map<number, number>();
  for (const line of read(effects).trimEnd().split("\n")) {
    const n = Number(line.split(" ")[0]);
    counts.set(n, (counts.get(n) ?? 0) + 1);
  }
  return counts;
}

function executions(effects: string): number {
  return read(effects).split("\n").length - 1;
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // no execution yet
  }
}

async function inParallel(count: number, work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, work));
}
