/**
 * Calls at a steady rate go to each platform in turn: the one that has their endpoint, or another, is killed every 20 s, and the one that has
 * it stands still for 10 s; or, for what a hand-over costs, the one that has it stops in order and starts again, again and again.
 */
import { existsSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { judge, type Seen } from "../test/campaign/history.ts";
import { type Call, historiesOf, type SteadyCalls, startSteadyCalls } from "../test/campaign/steady-calls.ts";
import { atMost, type BenchResult } from "./bench.ts";
import type { Replicas } from "./replicas-part.ts";

const EVERY_MS = 20_000;
const LOOK_MS = 100;
const STAND_MS = 10_000;
/** It knows by then what it lost, and its callers are answered. */
const LOSES_MAX_MS = 20_000;
const PER_SECOND = { runsync: 60, run: 20, route: 20 };
const SETTLE_MAX_MS = 60_000;
const COMPLETED = 2;

/** A fault, and when it and its consequences were over. */
interface Span {
  readonly what: "owner killed" | "other killed" | "owner stood still" | "owner stopped";
  readonly n: number;
  readonly fromMs: number;
  toMs: number;
  /** Of one that stopped: when it had ended. */
  leftMs?: number;
}

type During = (what: Span["what"], n: number, fault: (span: Span) => Promise<void>) => Promise<void>;

export async function tryFaults(replicas: Replicas): Promise<BenchResult> {
  const { platforms, rounds, ownerOf } = replicas;
  const judgement = await underCalls(replicas, async (during) => {
    for (let round = 0; round < rounds; round++) {
      const owner = await ownerOf("work");
      const isOwner = round % 2 === 0;
      const n = isOwner ? owner : (owner + 1 + (round % (platforms.ports.length - 1))) % platforms.ports.length;
      await during(isOwner ? "owner killed" : "other killed", n, async () => {
        await platforms.end(n, "SIGKILL");
        await platforms.launch(n);
      });
    }
    const stopped = await ownerOf("work");
    await during("owner stood still", stopped, async () => {
      const pid = platforms.pid(stopped);
      process.kill(pid, "SIGSTOP");
      await delay(STAND_MS);
      process.kill(pid, "SIGCONT");
      // One that had the database finds that another has it, and ends.
      const until = performance.now() + LOSES_MAX_MS;
      while (existsSync(`/proc/${pid}`) && performance.now() < until) await delay(LOOK_MS);
      if (!existsSync(`/proc/${pid}`)) await platforms.launch(stopped);
    });
  });
  const { conditions, ...rest } = judgement;
  const faults = `${rounds} kills, one every ${EVERY_MS / 1000} s: of who has the function, then of another, in turns; then who has it stands still for ${STAND_MS / 1000} s`;
  return { ...rest, conditions: { ...conditions, faults } };
}

export async function tryHandOvers(replicas: Replicas): Promise<BenchResult> {
  const { platforms, rounds, ownerOf } = replicas;
  const { conditions, ...rest } = await underCalls(replicas, async (during) => {
    for (let round = 0; round < rounds; round++) {
      const leaves = await ownerOf("work");
      await during("owner stopped", leaves, async (span) => {
        await platforms.end(leaves, "SIGTERM");
        span.leftMs = performance.now();
        await platforms.launch(leaves);
      });
    }
  });
  const stops = `who has the function stops in order and starts again, ${rounds} times, every ${EVERY_MS / 1000} s at most`;
  return { ...rest, conditions: { ...conditions, stops } };
}

/** Resolves when what followed from each was waited for, and every job was looked up. */
async function underCalls(
  { platforms, paths }: Replicas,
  play: (during: During) => Promise<void>,
): Promise<BenchResult & { readonly conditions: object }> {
  const urls = platforms.ports.map((_, n) => platforms.url(n));
  const steady = () => startSteadyCalls({ urls, key: platforms.key, paths, perSecond: PER_SECOND });
  // Code that was never run is slow at first.
  const warm = steady();
  await delay(3_000);
  await warm.stop();
  const calls = steady();
  const spans: Span[] = [];
  const during: During = async (what, n, fault) => {
    const span: Span = { what, n, fromMs: performance.now(), toMs: 0 };
    spans.push(span);
    await fault(span);
    await delay(Math.max(0, span.fromMs + EVERY_MS - performance.now()));
    span.toMs = performance.now();
    const slow = within(calls.calls, span).sort((a, b) => b.tookMs - a.tookMs);
    const words = slow.slice(0, 1).map(({ kind, atMs, tookMs }) => {
      return `a ${kind} after ${(atMs - span.fromMs).toFixed(0)} ms, ${tookMs.toFixed(0)} ms`;
    });
    console.error(`${spans.length}: ${what}, the longest call: ${words}`);
  };
  await delay(2_000);
  await play(during);
  await delay(2_000);
  await calls.stop();
  const judgement = await judged(platforms, calls, spans);
  return {
    ...judgement,
    conditions: {
      calls: `each second ${PER_SECOND.runsync} /runsync, ${PER_SECOND.run} /run, ${PER_SECOND.route} to a route, to each platform in turn that says it is ready; 1 worker of each function`,
      pause: "the longest that a call took at a platform that lived, from the fault until the next",
      stopped: "calls under way between the word to stop and the end of the process",
    },
  };
}

function within(calls: readonly Call[], { fromMs, toMs, n, what }: Span): Call[] {
  // Who is killed, or stands still, answers nobody: its callers are told apart by their connections.
  const lives = ({ to }: Call) => what === "owner stopped" || to !== n;
  return calls.filter((call) => lives(call) && call.atMs + call.tookMs >= fromMs && call.atMs < toMs);
}

function longest(calls: readonly Call[], span: Span): number {
  return Math.max(0, ...within(calls, span).map(({ tookMs }) => tookMs));
}

async function judged(platforms: Replicas["platforms"], { calls, jobs }: SteadyCalls, spans: readonly Span[]) {
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
  const handOvers = spans.filter(({ what }) => what === "owner stopped");
  const whileLeaving = handOvers.flatMap((span) => within(calls, { ...span, toMs: span.leftMs ?? span.toMs }));
  const handedOver = whileLeaving.map(({ tookMs }) => tookMs);
  const pausesOf = (what: Span["what"]) => {
    const ms = pauses(what);
    return ms.length === 0
      ? {}
      : { [`${what}: pause p50, ms`]: percentile(ms, 50), [`${what}: pause max, ms`]: Math.max(...ms) };
  };
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
    ...pausesOf("owner killed"),
    ...pausesOf("other killed"),
    ...pausesOf("owner stood still"),
    ...pausesOf("owner stopped"),
    ...(handOvers.length > 0 && {
      "calls while one stops p50, ms": percentile(handedOver, 50),
      "seconds until it has ended p50": percentile(
        handOvers.map(({ fromMs, leftMs = fromMs }) => (leftMs - fromMs) / 1000),
        50,
      ),
    }),
  };
  const bars = {
    "lost jobs": atMost(verdict.lost.length + verdict.stuck.length + open, 0),
    "finished twice": atMost(verdict.doubled.length + twice, 0),
    "failed calls": atMost(failed.length, 0),
    ...(killed.length > 0 && { "owner killed: pause p99": atMost(percentile(killed, 99), 1_000, " ms") }),
    ...(handOvers.length > 0 && { "calls while one stops p99": atMost(percentile(handedOver, 99), 300, " ms") }),
  };
  return { figures, bars };
}

/** What the rows say of all jobs, when none is open any more. */
async function storedJobs(platforms: Replicas["platforms"], jobs: SteadyCalls["jobs"]) {
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

function percentile(values: readonly number[], of: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * of) / 100))] ?? 0;
}
