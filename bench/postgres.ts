/**
 * /runsync and /run with jobs in PostgreSQL against jobs in the data directory, whose every commit waits for the disk too
 * (durability full), in turns; and against queues that keep their jobs in the same PostgreSQL. The server is the bench's own.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import pg from "pg";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { findPostgres, startPostgres } from "../test/postgres.ts";
import { atLeast, atMost, type Bar, type Bench, median } from "./bench.ts";
import { type CountedLoad, costFigures, countedLoad, requireWrk, type Target } from "./load.ts";
import { measureDeep } from "./postgres-deep.ts";
import { startPeers } from "./postgres-peers.ts";
import { startPlatform } from "./processes.ts";
import { eachUs, type Parts, processorTime } from "./processor-time.ts";
import { settled, submitToComplete } from "./queue.ts";

const CONNECTIONS = [1, 64];
const SECONDS = 3;
const WORKERS = 2;
const COMMITS = 300;
const PEER_JOBS = 1_000;
const PEER_TIMES = 2;
const WORKER = `
from svc import Endpoint

@Endpoint(name="echo", workers=(1, 1))
def echo(text):
    return {"text": text}

@Endpoint(name="jobs", workers=(${WORKERS}, ${WORKERS}))
def jobs(text):
    return {"text": text}
`;
const JOB = JSON.stringify({ input: { text: "x".repeat(80) } });

export const bench: Bench = async ({ rounds, part }) => {
  const wrk = await requireWrk();
  const found = await findPostgres();
  if ("missing" in found) throw new Error(found.missing);
  const server = await startPostgres(found.bin, { durable: true, settings: { shared_buffers: "256MB" } });
  const stops = [() => server.stop()];
  try {
    const database = `${await server.sql("SELECT version()")}; synchronous_commit ${await server.sql("SHOW synchronous_commit")}, on the same machine`;
    if (part === "deep") {
      const conditions: Record<string, string> = { database, rounds: `${rounds}` };
      return { conditions, ...(await measureDeep(server, rounds)) };
    }
    const serverPid = Number(readFileSync(path.join(server.dataDir, "postmaster.pid"), "utf8").split("\n")[0]);
    const parts = { database: { pids: [serverPid], tree: true } };
    const storedFirst = { SVC_DATABASE_URL: await server.database("stored_first"), SVC_EARLY_HANDOUT: "0" };
    const sides = {
      embedded: await side({ SVC_DURABILITY: "full" }),
      postgres: await side({ SVC_DATABASE_URL: server.url }, parts),
      "postgres, stored first": await side(storedFirst, parts),
    };
    stops.push(
      ...Object.values(sides).map(
        ({ platform }) =>
          () =>
            platform.stop(),
      ),
    );
    const peers = await startPeers(server);
    stops.push(() => peers.stop());

    const seen = new Map<string, CountedLoad[]>();
    const commits: number[] = [];
    const completed = new Map<string, number[]>();
    const note = (name: string, rate: number) => getOrInsert(completed, name, () => []).push(rate);
    const costs = new Map<string, number[]>();
    const cost = (name: string, ms: Record<string, number>, jobs: number) => {
      for (const [part, us] of Object.entries(eachUs(ms, jobs)))
        getOrInsert(costs, `${name}: µs/job, ${part}`, () => []).push(us);
    };
    for (let round = 0; round < rounds; round++) {
      for (const connections of CONNECTIONS) {
        for (const [name, { runsync, parts }] of Object.entries(sides)) {
          const loaded = await countedLoad(runsync, parts, connections, SECONDS);
          getOrInsert(seen, `${name} @${connections}`, () => []).push(loaded);
        }
        if (connections === 1) commits.push(await commitMs(server.adminUrl));
      }
      for (const [name, { platform, run, url, jobParts }] of Object.entries(sides)) {
        const spent = processorTime(jobParts);
        const done = await submitToComplete(platform, run, url);
        cost(name, spent(), done.jobs);
        note(name, done.perSecond);
        await settled(platform, url);
      }
      for (const peer of peers.all) {
        const spent = processorTime({ peer: { pids: [peer.pid], tree: true }, ...parts });
        note(peer.name, await peer.run(PEER_JOBS));
        cost(peer.name, spent(), PEER_JOBS);
      }
    }

    const rate = (name: string) => median(seen.get(name)!.map((one) => one.requestsPerSecond));
    const p50 = (name: string) => median(seen.get(name)!.map((one) => one.p50Ms));
    const commit = median(commits);
    const figures: Record<string, number> = { "commit alone p50 ms": commit };
    for (const [name, loads] of seen) {
      figures[`${name} requests/s`] = rate(name);
      figures[`${name} p50 ms`] = p50(name);
      Object.assign(figures, costFigures(name, loads));
    }
    for (const [name, rates] of completed) figures[`${name}: jobs/s, submission to result stored`] = median(rates);
    for (const [name, us] of costs) figures[name] = median(us);
    const bars: Record<string, Bar> = {
      "p50 @1": atMost(p50("postgres @1"), rounded(p50("embedded @1") + 2.2 * commit), " ms (embedded + 2.2 commits)"),
      "rate @64, postgres/embedded": atLeast(rate("postgres @64") / rate("embedded @64"), 0.5),
    };
    const jobs = median(completed.get("postgres")!);
    for (const { name } of peers.all) {
      bars[`jobs completed/${name}`] = atLeast(jobs / median(completed.get(name)!), PEER_TIMES);
    }
    return {
      conditions: {
        job: "80 characters in and out, sync function, 1 worker; submission to result: 2 workers, 64 connections",
        database,
        embedded: "SQLite WAL, durability full",
        peers: peers.about,
        load: `${wrk}, 1 thread, ${SECONDS} s each, same machine, ${rounds} rounds interleaved`,
      },
      figures,
      bars,
    };
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
};

/** A platform with its ways to be asked. */
async function side(env: Readonly<Record<string, string>>, others: Parts = {}) {
  const platform = await startPlatform(env);
  const urls = await platform.deploy({ "worker.py": WORKER });
  const headers = { "content-type": "application/json", authorization: `Bearer ${platform.key}` };
  const post = (url: string): Target => ({ url, method: "POST", headers, body: JOB });
  const parts: Parts = {
    platform: { pids: [platform.pid] },
    worker: { pids: await platform.workerPids("echo") },
    ...others,
  };
  const jobParts: Parts = { ...parts, worker: { pids: await platform.workerPids("jobs") } };
  return {
    platform,
    parts,
    jobParts,
    url: urls.jobs!,
    runsync: post(`${urls.echo}/runsync`),
    run: post(`${urls.jobs}/run`),
  };
}

/** Of a row that is inserted: from the question to the answer. */
async function commitMs(url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query("CREATE TABLE IF NOT EXISTS commit_alone (n int8)");
    const times: number[] = [];
    for (let n = 0; n < COMMITS; n++) {
      const began = performance.now();
      await client.query({ name: "commit", text: "INSERT INTO commit_alone VALUES ($1)", values: [n] });
      times.push(performance.now() - began);
    }
    return median(times);
  } finally {
    await client.end();
  }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
