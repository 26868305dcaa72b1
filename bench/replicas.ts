/**
 * Three platforms on one database and one machine under calls at a steady rate that go to each in turn: the owner, or one of the others, is
 * killed every 20 s; the owner stands still for 10 s; it gives the database away. Then what a call costs that goes by another platform.
 * Not a race: what counts is that nothing is lost or finished twice, and how long calls wait.
 */
import { availableParallelism } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { judge, type Seen } from "../test/campaign/history.ts";
import { lacksServers, Platforms } from "../test/campaign/platforms.ts";
import {
  type Call,
  historiesOf,
  STEADY_PROJECT,
  type SteadyCalls,
  startSteadyCalls,
} from "../test/campaign/steady-calls.ts";
import { atMost, type Bench, median } from "./bench.ts";
import { load, requireWrk, type Target } from "./load.ts";
import { processorTime } from "./processor-time.ts";

const COUNT = 3;
const EVERY_MS = 20_000;
const STAND_MS = 10_000;
const PER_SECOND = { runsync: 60, run: 20, route: 20 };
const SETTLE_MAX_MS = 60_000;
const FORWARDS = 5;
const SECONDS = 3;
const CONNECTIONS = 30;
const HOUR = "3600";
const COMPLETED = 2;

export const bench: Bench = async ({ rounds, part }) => {
  const lack = await lacksServers();
  if (lack !== false) throw new Error(lack);
  const wrk = await requireWrk();
  const env = { SVC_RUN_RETENTION_S: HOUR, SVC_RUNSYNC_RETENTION_S: HOUR, SVC_RUNSYNC_WAIT_RETENTION_S: HOUR };
  const onLogLine = process.env.SVC_BENCH_LOG ? (n: number, line: string) => console.error(`  ${n} ${line}`) : () => {};
  const platforms = await Platforms.start({ count: COUNT, env, durable: true, onLogLine });
  try {
    const paths = await platforms.deploy(STEADY_PROJECT);
    await warm(platforms, paths);
    const faults = part === "cost" ? undefined : await tryFaults(platforms, paths, rounds);
    const cost = part === "faults" ? undefined : await measureCost(platforms, paths);
    return {
      conditions: {
        platforms: `${COUNT} on one machine, ${availableParallelism()} processors, with PostgreSQL (synchronous_commit on) and S3`,
        calls: `each second ${PER_SECOND.runsync} /runsync, ${PER_SECOND.run} /run, ${PER_SECOND.route} to a route, to each platform in turn that says it is ready; 1 worker of each function`,
        rounds: `${rounds} kills, one every ${EVERY_MS / 1000} s: of the owner, then of another, in turns; then the owner stands still for ${STAND_MS / 1000} s; then it stops in order`,
        pause: "the longest that a call took at a platform that lived, from the fault until the next",
        cost: `${wrk}, ${FORWARDS} rounds in turns of ${SECONDS} s; p50 with 1 connection, processor time with ${CONNECTIONS}`,
      },
      figures: { ...faults?.figures, ...cost?.figures },
      bars: { ...faults?.bars, ...cost?.bars },
    };
  } finally {
    await platforms.close();
  }
};

async function warm(platforms: Platforms, paths: Readonly<Record<string, string>>): Promise<void> {
  const urls = platforms.ports.map((_, n) => platforms.url(n));
  const calls = startSteadyCalls({ urls, key: platforms.key, paths, perSecond: PER_SECOND });
  await delay(3_000);
  await calls.stop();
}

/** A fault, and when it and its consequences were over. */
interface Span {
  readonly what: "owner killed" | "other killed" | "owner stood still" | "owner stopped";
  readonly n: number;
  readonly fromMs: number;
  toMs: number;
}

async function tryFaults(platforms: Platforms, paths: Readonly<Record<string, string>>, rounds: number) {
  const urls = platforms.ports.map((_, n) => platforms.url(n));
  const calls = startSteadyCalls({ urls, key: platforms.key, paths, perSecond: PER_SECOND });
  const spans: Span[] = [];
  const during = async (what: Span["what"], n: number, fault: () => Promise<void>) => {
    const span = { what, n, fromMs: performance.now(), toMs: 0 };
    spans.push(span);
    await fault();
    await delay(Math.max(0, span.fromMs + EVERY_MS - performance.now()));
    span.toMs = performance.now();
    console.error(`${spans.length}: ${what}, the longest call ${longest(calls.calls, span).toFixed(0)} ms`);
  };
  await delay(2_000);
  for (let round = 0; round < rounds; round++) {
    const owner = (await ownerOf(platforms))!;
    const isOwner = round % 2 === 0;
    const n = isOwner ? owner : (owner + 1 + (round % (COUNT - 1))) % COUNT;
    await during(isOwner ? "owner killed" : "other killed", n, async () => {
      await platforms.end(n, "SIGKILL");
      await platforms.launch(n);
    });
  }
  const stopped = await ownerOf(platforms);
  await during("owner stood still", stopped, async () => {
    const pid = platforms.pid(stopped);
    process.kill(pid, "SIGSTOP");
    await delay(STAND_MS);
    process.kill(pid, "SIGCONT");
    // It finds that another has the database, and ends.
    await platforms.ended(stopped);
    await platforms.launch(stopped);
  });
  const leaves = await ownerOf(platforms);
  await during("owner stopped", leaves, async () => {
    await platforms.end(leaves, "SIGTERM");
    await platforms.launch(leaves);
  });
  await delay(2_000);
  await calls.stop();
  return judged(platforms, calls, spans);
}

async function ownerOf(platforms: Platforms): Promise<number> {
  const until = performance.now() + SETTLE_MAX_MS;
  for (;;) {
    const owner = await platforms.owner();
    if (owner !== undefined) return owner;
    if (performance.now() > until) throw new Error("no platform has the database");
    await delay(100);
  }
}

function within(calls: readonly Call[], { fromMs, toMs, n, what }: Span): Call[] {
  // Who is killed, or stands still, answers nobody: its callers are told apart by their connections.
  const lives = ({ to }: Call) => what === "owner stopped" || to !== n;
  return calls.filter((call) => lives(call) && call.atMs + call.tookMs >= fromMs && call.atMs < toMs);
}

function longest(calls: readonly Call[], span: Span): number {
  return Math.max(0, ...within(calls, span).map(({ tookMs }) => tookMs));
}

async function judged(platforms: Platforms, { calls, jobs }: SteadyCalls, spans: readonly Span[]) {
  const { found, twice, open } = await storedJobs(platforms, jobs);
  const verdict = judge(historiesOf(jobs, found));
  // Callers of a platform that stood still, and then ended, were its own.
  const failed = calls.filter(({ problem, to, atMs }) => {
    const stood = spans.some(
      ({ what, n, fromMs, toMs }) => what === "owner stood still" && n === to && atMs >= fromMs && atMs < toMs,
    );
    return problem !== "" && problem !== "own" && !stood;
  });
  const own = calls.filter(({ problem }) => problem === "own").length;
  for (const { problem, atMs } of failed.slice(0, 20)) {
    const span = spans.findLast(({ fromMs }) => fromMs <= atMs);
    console.error(`failed ${(atMs - (span?.fromMs ?? 0)).toFixed(0)} ms after ${span?.what}: ${problem}`);
  }
  for (const what of [...verdict.lost, ...verdict.doubled, ...verdict.stuck].slice(0, 20)) console.error(what);
  const pauses = (what: Span["what"]) => spans.filter((span) => span.what === what).map((span) => longest(calls, span));
  const killed = pauses("owner killed");
  const all = spans.filter(({ what }) => what === "owner stopped").flatMap((span) => within(calls, span));
  const handOver = percentile(
    all.map(({ tookMs }) => tookMs),
    99,
  );
  const figures: Record<string, number> = {
    calls: calls.length,
    "accepted jobs": verdict.accepted,
    "calls whose own connection ended": own,
    "calls p50, ms": percentile(
      calls.map(({ tookMs }) => tookMs),
      50,
    ),
    "calls p99, ms": percentile(
      calls.map(({ tookMs }) => tookMs),
      99,
    ),
    "owner killed: pause p50, ms": percentile(killed, 50),
    "owner killed: pause max, ms": Math.max(0, ...killed),
    "another killed: pause max, ms": Math.max(0, ...pauses("other killed")),
    "owner stood still: pause, ms": Math.max(0, ...pauses("owner stood still")),
    "owner stopped: pause, ms": Math.max(0, ...pauses("owner stopped")),
  };
  const bars = {
    "lost jobs": atMost(verdict.lost.length + verdict.stuck.length + open, 0),
    "finished twice": atMost(verdict.doubled.length + twice, 0),
    "failed calls": atMost(failed.length, 0),
    "owner killed: pause p99": atMost(percentile(killed, 99), 1_000, " ms"),
    "owner stopped: calls p99": atMost(handOver, 300, " ms"),
  };
  return { figures, bars };
}

/** What the rows say of all jobs, when none is open any more. */
async function storedJobs(platforms: Platforms, jobs: SteadyCalls["jobs"]) {
  const client = new pg.Client(platforms.postgres.url);
  await client.connect();
  try {
    const until = performance.now() + SETTLE_MAX_MS;
    let open = 0;
    do {
      open = (await client.query("SELECT count(*)::int AS n FROM open_jobs")).rows[0].n;
      if (open > 0) await delay(200);
    } while (open > 0 && performance.now() < until);
    const found = new Map<string, Seen[]>();
    let twice = 0;
    const { rows } = await client.query<{ id: string; state: number; output: Buffer | null }>(
      "SELECT id, state, output FROM done_jobs",
    );
    for (const { id, state, output } of rows) {
      if (found.has(id)) twice++;
      const result = output === null ? "" : JSON.stringify(JSON.parse(output.toString()));
      found.set(id, [{ atMs: Date.now(), state: state === COMPLETED ? "COMPLETED" : `${state}`, result }]);
    }
    const left = [...jobs.keys()].filter((id) => !found.has(id)).length;
    console.error(`${rows.length} jobs are stored, ${left} of those that were accepted are not, ${open} are open`);
    return { found, twice, open };
  } finally {
    await client.end();
  }
}

async function measureCost(platforms: Platforms, paths: Readonly<Record<string, string>>) {
  const owner = await ownerOf(platforms);
  const others = [...platforms.ports.keys()].filter((n) => n !== owner);
  const headers = { "content-type": "application/json", authorization: `Bearer ${platforms.key}` };
  const body = JSON.stringify({ input: { n: 1 } });
  const job = (n: number): Target => ({
    url: `${platforms.url(n)}${paths.work}/runsync`,
    method: "POST",
    headers,
    body,
  });
  const route = (n: number): Target => ({
    url: `${platforms.url(n)}${paths.web}/hello?n=1`,
    method: "GET",
    headers,
    body: "",
  });
  const p50: Record<string, number[]> = { owner: [], other: [], "owner, route": [], "other, route": [] };
  const used: Record<string, number[]> = { one: [], three: [] };
  const pids = platforms.ports.map((_, n) => platforms.pid(n));
  const counted = async (targets: readonly number[]) => {
    const spent = processorTime({ platforms: { pids } });
    const loads = await Promise.all(targets.map((n) => load(job(n), CONNECTIONS / targets.length, SECONDS)));
    return (spent().platforms! * 1000) / loads.reduce((sum, { requests }) => sum + requests, 0);
  };
  for (let round = 0; round <= FORWARDS; round++) {
    const seen = {
      owner: (await load(job(owner), 1, SECONDS)).p50Ms,
      other: (await load(job(others[0]!), 1, SECONDS)).p50Ms,
      "owner, route": (await load(route(owner), 1, SECONDS)).p50Ms,
      "other, route": (await load(route(others[0]!), 1, SECONDS)).p50Ms,
    };
    const cost = { one: await counted([owner]), three: await counted([owner, ...others]) };
    // Code that was never run is slow at first.
    if (round === 0) continue;
    for (const [name, value] of Object.entries(seen)) p50[name]!.push(value);
    for (const [name, value] of Object.entries(cost)) used[name]!.push(value);
  }
  const of = (name: string) => median(p50[name]!);
  const [one, three] = [median(used.one!), median(used.three!)];
  return {
    figures: {
      ...Object.fromEntries(Object.keys(p50).map((name) => [`${name}: p50 of a call, ms`, of(name)])),
      "route: added p50, ms": of("other, route") - of("owner, route"),
      "platforms' µs/job, calls to the owner": one,
      "platforms' µs/job, calls to all three": three,
    },
    bars: {
      "added p50 of a forward": atMost(of("other") - of("owner"), 0.3, " ms"),
      "processor time of three/one": atMost(three / one, 1.25),
    },
  };
}

function percentile(values: readonly number[], of: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * of) / 100))] ?? 0;
}
