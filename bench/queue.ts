/**
 * /runsync of a durable job with authentication on, against bare node:http echo and FastAPI written by hand, interleaved.
 * FastAPI does less: it checks no key and keeps nothing. And durable jobs from submission to completion, against Celery
 * with Redis: ours come over HTTP from 64 connections, Celery's from one process of its own.
 */
import { setTimeout as delay } from "node:timers/promises";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { atLeast, atMost, type Bench, median } from "./bench.ts";
import { type CountedLoad, costFigures, countedLoad, load, requireWrk, type Target } from "./load.ts";
import { type BenchPlatform, pythonEnvironment, startPlatform, startServer } from "./processes.ts";
import type { Parts } from "./processor-time.ts";
import { startTaskQueue, type TaskQueueRound } from "./task-queues.ts";

const CONNECTIONS = [1, 16, 64];
const SECONDS = 3;
const WORKERS = 2;
const TEXT = "x".repeat(80);
const WORKER = `
from svc import Endpoint

@Endpoint(name="echo", workers=(1, 1))
def echo(text):
    return {"text": text}

@Endpoint(name="jobs", workers=(${WORKERS}, ${WORKERS}))
def jobs(text):
    return {"text": text}
`;

export const bench: Bench = async ({ rounds }) => {
  const wrk = await requireWrk();
  const bin = await pythonEnvironment("fastapi", ["fastapi", "uvicorn[standard]"]);
  const versions = (await runProcess(`${bin}/python`, ["-m", "pip", "freeze"])).stdout;
  const version = (name: string) => new RegExp(`^${name}==(.*)$`, "m").exec(versions)?.[1];
  const found = await startTaskQueue("celery", WORKERS);
  const celery = "missing" in found ? undefined : found;
  const platform = await startPlatform();
  const echo = await startServer(process.execPath, (port) => ["bench/peers/echo.ts", String(port)]);
  const fastapi = await startServer(`${bin}/uvicorn`, (port) => [
    "--app-dir",
    "bench/peers",
    "fastapi_app:app",
    "--port",
    String(port),
    "--log-level",
    "warning",
  ]);
  try {
    const urls = await platform.deploy({ "worker.py": WORKER });
    const json = { "content-type": "application/json" };
    const post = (url: string, body: string, headers = {}): Target => ({
      url,
      method: "POST",
      headers: { ...json, ...headers },
      body,
    });
    const plain = JSON.stringify({ text: TEXT });
    const targets: Record<string, Target> = {
      runsync: post(`${urls.echo}/runsync`, JSON.stringify({ input: { text: TEXT } }), {
        authorization: `Bearer ${platform.key}`,
      }),
      run: post(`${urls.echo}/run`, JSON.stringify({ input: { text: TEXT } }), {
        authorization: `Bearer ${platform.key}`,
      }),
      "node:http echo": post(`http://127.0.0.1:${echo.port}/`, plain),
      fastapi: post(`http://127.0.0.1:${fastapi.port}/echo-async`, plain),
    };
    const ours: Parts = {
      platform: { pids: [platform.pid] },
      worker: { pids: await platform.workerPids("echo") },
    };
    const parts: Record<string, Parts> = {
      runsync: ours,
      run: ours,
      "node:http echo": { node: { pids: [echo.pid] } },
      fastapi: { uvicorn: { pids: [fastapi.pid], tree: true } },
    };
    const submit = { ...targets.run!, url: `${urls.jobs}/run` };
    const seen = new Map<string, CountedLoad[]>();
    const completed: number[] = [];
    const celeryRounds: TaskQueueRound[] = [];
    for (let round = 0; round < rounds; round++) {
      for (const connections of CONNECTIONS) {
        for (const [name, target] of Object.entries(targets)) {
          const result = await countedLoad(target, parts[name]!, connections, SECONDS);
          getOrInsert(seen, `${name} @${connections}`, () => []).push(result);
          if (name === "run") await settled(platform, urls.echo!);
        }
      }
      completed.push((await submitToComplete(platform, submit, urls.jobs!)).perSecond);
      if (celery !== undefined) celeryRounds.push(await celery.run());
    }
    const rate = (name: string) => median(seen.get(name)!.map((one) => one.requestsPerSecond));
    const p50 = (name: string) => median(seen.get(name)!.map((one) => one.p50Ms));
    const figures: Record<string, number> = {};
    for (const [name, loads] of seen) {
      figures[`${name} requests/s`] = rate(name);
      figures[`${name} p50 ms`] = p50(name);
      Object.assign(figures, costFigures(name, loads));
    }
    const jobs = median(completed);
    figures["jobs completed/s, submission to completion"] = jobs;
    const ofCelery = (key: "perSecond" | "submittedPerSecond" | "p50Ms") =>
      median(celeryRounds.map((round) => round[key]));
    if (celery !== undefined) {
      figures["celery: jobs completed/s"] = ofCelery("perSecond");
      figures["celery: jobs submitted/s"] = ofCelery("submittedPerSecond");
      figures["celery: round trip p50 ms"] = ofCelery("p50Ms");
    }
    return {
      conditions: {
        job: "80 characters in and out, sync function, 1 worker",
        ours: "auth on, durable (SQLite WAL, durability normal)",
        peers: `node:http ${process.version}; fastapi ${version("fastapi")}, uvicorn ${version("uvicorn")} with uvloop ${version("uvloop")}: no auth, no queue`,
        celery: "missing" in found ? `left out: ${found.missing}` : found.versions,
        load: `${wrk}, 1 thread, ${SECONDS} s each, same machine, ${rounds} rounds interleaved`,
      },
      figures,
      bars: {
        "runsync/fastapi @64": atLeast(rate("runsync @64") / rate("fastapi @64"), 1.5),
        "runsync/echo @64": atLeast(rate("runsync @64") / rate("node:http echo @64"), 0.4),
        ...(celery === undefined ? {} : { "jobs completed/celery": atLeast(jobs / ofCelery("perSecond"), 10) }),
        "runsync p50/echo p50 @1": atMost(p50("runsync @1") / p50("node:http echo @1"), 2.5),
      },
    };
  } finally {
    await Promise.all([platform.stop(), echo.stop(), fastapi.stop(), celery?.stop()]);
  }
};

/** Jobs, and how many a second, from the first submission to the last result. */
export async function submitToComplete(
  platform: BenchPlatform,
  target: Target,
  url: string,
): Promise<{ jobs: number; perSecond: number }> {
  const before = await settled(platform, url);
  const started = performance.now();
  await load(target, 64, SECONDS);
  const jobs = (await settled(platform, url)) - before;
  return { jobs, perSecond: jobs / ((performance.now() - started) / 1000) };
}

/** Waits until no job is left, and resolves how many were completed so far. */
export async function settled(platform: BenchPlatform, url: string): Promise<number> {
  for (;;) {
    const answer = await fetch(`${url}/health`, { headers: { authorization: `Bearer ${platform.key}` } });
    const { jobs } = (await answer.json()) as { jobs: Record<"inQueue" | "inProgress" | "completed", number> };
    if (jobs.inQueue + jobs.inProgress === 0) return jobs.completed;
    await delay(5);
  }
}
