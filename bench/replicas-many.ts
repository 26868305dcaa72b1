/** What endpoints that nobody calls, and jobs that wait, cost each of several platforms, and one that takes them over. */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { atLeast, atMost, type BenchResult, median } from "./bench.ts";
import { load, requireWrk, type Target } from "./load.ts";
import { deployApps } from "./many-endpoints.ts";
import { processorTime, residentMb } from "./processor-time.ts";
import type { Replicas } from "./replicas-part.ts";

const ENDPOINTS = 10_000;
const JOBS = 1_000_000;
/** Jobs wait at so many of the endpoints. */
const QUEUES = 10;
const ROUNDS = 5;
const SECONDS = 3;
const CONNECTIONS = 30;
const FILL_CONNECTIONS = 60;
const FILL_SECONDS = 2;
const SETTLE_MS = 10_000;

export const measureMany = (replicas: Replicas): Promise<BenchResult> => many(replicas, ENDPOINTS, JOBS);

export async function many({ platforms, paths }: Replicas, endpoints: number, jobs: number): Promise<BenchResult> {
  const all = [...platforms.ports.keys()];
  const headers = { "content-type": "application/json", authorization: `Bearer ${platforms.key}` };
  const target = (url: string): Target => ({ url, method: "POST", headers, body: '{"input":{"n":1}}' });
  const largestMb = () => Math.max(...all.map((n) => residentMb(platforms.pid(n))));
  /** A third of the calls goes to each. */
  const measure = async () => {
    const [perSecond, us]: [number[], number[]] = [[], []];
    for (let round = 0; round <= ROUNDS; round++) {
      const spent = processorTime({ platforms: { pids: all.map((n) => platforms.pid(n)) } });
      const loads = await Promise.all(
        all.map((n) => load(target(`${platforms.url(n)}${paths.work}/runsync`), CONNECTIONS / all.length, SECONDS)),
      );
      const requests = loads.reduce((sum, one) => sum + one.requests, 0);
      // Code that was never run is slow at first.
      if (round === 0) continue;
      perSecond.push(requests / SECONDS);
      us.push((spent().platforms! * 1000) / requests);
    }
    return { perSecond: median(perSecond), us: median(us) };
  };
  const empty = await measure();
  const emptyMb = largestMb();
  const urls = await deployApps({ url: platforms.url(0), key: platforms.key }, endpoints);
  const deployedMb = largestMb();
  const fillSeconds = await fill(platforms.postgres.url, jobs, async (turn) => {
    const url = urls[turn % Math.min(QUEUES, urls.length)]!;
    const at = `${platforms.url(turn % all.length)}${new URL(url).pathname}/run`;
    await load(target(at), FILL_CONNECTIONS, FILL_SECONDS);
  });
  const peakMb = largestMb();
  await delay(SETTLE_MS);
  const settledMb = largestMb();
  const full = await measure();
  const [leaves] = all;
  const began = performance.now();
  await platforms.end(leaves!, "SIGTERM");
  const endSeconds = (performance.now() - began) / 1000;
  const takenMb = Math.max(...all.slice(1).map((n) => residentMb(platforms.pid(n))));
  await platforms.launch(leaves!);
  return {
    conditions: {
      many: `${endpoints} endpoints without workers, in apps of 100; ${jobs} jobs wait at ${QUEUES} of them`,
      rate: `${await requireWrk()}, ${CONNECTIONS} connections, a third to each platform, ${ROUNDS} rounds of ${SECONDS} s, before and after`,
    },
    figures: {
      "runsync/s, empty": empty.perSecond,
      "runsync/s, full": full.perSecond,
      "platforms' µs/job, empty": empty.us,
      "platforms' µs/job, full": full.us,
      "jobs accepted/s": jobs / fillSeconds,
      "largest platform MB, empty": emptyMb,
      "largest platform MB, deployed": deployedMb,
      "largest platform MB, when the last job came": peakMb,
      "largest platform MB, settled": settledMb,
      "one stops: seconds until its end": endSeconds,
      "largest platform MB, with the part of one that stopped": takenMb,
    },
    bars: {
      "resident memory of a platform": atMost(Math.max(settledMb, takenMb), 300, " MB"),
      "rate, full/empty": atLeast(full.perSecond / empty.perSecond, 0.9),
      "processor time of a job, full/empty": atMost(full.us / empty.us, 1.1),
    },
  };
}

/** Seconds until so many jobs wait. */
async function fill(database: string, jobs: number, more: (turn: number) => Promise<void>): Promise<number> {
  const client = new pg.Client(database);
  await client.connect();
  const began = performance.now();
  try {
    for (let turn = 0; ; turn++) {
      const { rows } = await client.query<{ n: number }>("SELECT count(*)::int AS n FROM open_jobs");
      if (rows[0]!.n >= jobs) return (performance.now() - began) / 1000;
      await more(turn);
    }
  } finally {
    await client.end();
  }
}
