/** What bench/peers.ts says of durable jobs: ours beside those of task queues, in turns. */
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atLeast, atMost, type Bar, type BenchResult, median } from "./bench.ts";
import { load, type Target } from "./load.ts";
import { type BenchPlatform, startPlatform } from "./processes.ts";
import { eachUs, type Parts, processorTime, total } from "./processor-time.ts";
import { submitToComplete } from "./queue.ts";
import { startTaskQueue, TASK_QUEUES, type TaskQueue, type TaskQueueName, type TaskQueueRound } from "./task-queues.ts";

const WORKERS = 2;
const RATE_MIN = 1.5;
const JSON_TYPE = { "content-type": "application/json" };
const TEXT = "x".repeat(80);
const WORKER = `
from svc import Endpoint

@Endpoint(name="jobs", workers=(${WORKERS}, ${WORKERS}))
def jobs(text):
    return {"text": text}
`;

/** Durable jobs: ours come over HTTP from 64 connections, those of the peers from one process of their own library. */
export async function jobs({ rounds, tasks }: { rounds: number; tasks: number | undefined }): Promise<BenchResult> {
  const queues = new Map<TaskQueueName, TaskQueue>();
  const leftOut: string[] = [];
  let platform: BenchPlatform | undefined;
  try {
    for (const name of Object.keys(TASK_QUEUES) as TaskQueueName[]) {
      const queue = await startTaskQueue(name, WORKERS);
      if ("missing" in queue) leftOut.push(queue.missing);
      else queues.set(name, queue);
    }
    platform = await startPlatform();
    const urls = await platform.deploy({ "worker.py": WORKER });
    const headers = { ...JSON_TYPE, authorization: `Bearer ${platform.key}` };
    const body = JSON.stringify({ input: { text: TEXT } });
    const submit: Target = { url: `${urls.jobs}/run`, method: "POST", headers, body };
    const parts: Parts = {
      platform: { pids: [platform.pid] },
      workers: { pids: await platform.workerPids("jobs") },
    };
    const seen = new Map<string, TaskQueueRound[]>();
    for (let round = 0; round < rounds; round++) {
      const spent = processorTime(parts);
      const done = await submitToComplete(platform, submit, urls.jobs!);
      const us = eachUs(spent(), done.jobs);
      const { p50Ms } = await load({ ...submit, url: `${urls.jobs}/runsync` }, 1, 1);
      getOrInsert(seen, "ours", () => []).push({
        perSecond: done.perSecond,
        submittedPerSecond: Number.NaN,
        us,
        p50Ms,
      });
      for (const [name, queue] of queues) getOrInsert(seen, name, () => []).push(await queue.run(tasks));
    }
    return toldOfJobs(seen, {
      jobs: "80 characters in and out, 2 workers; ours by /run from 64 connections, durability normal, auth on; p50: one at a time, by /runsync",
      "task queues": [...queues.values()].map(({ versions }) => versions).join("; "),
      ...(leftOut.length > 0 && { "left out": leftOut.join("; ") }),
    });
  } finally {
    await Promise.all([platform?.stop(), ...[...queues.values()].map((queue) => queue.stop())]);
  }
}

function toldOfJobs(seen: Map<string, TaskQueueRound[]>, conditions: Record<string, string>): BenchResult {
  const figures: Record<string, number> = {};
  const bars: Record<string, Bar> = {};
  const of = (name: string, value: (round: TaskQueueRound) => number) => median(seen.get(name)!.map(value));
  /** Without whoever submits, on either side. */
  const served = ({ us: { submitter: _, ...us } }: TaskQueueRound) => total(us);
  for (const [name, rounds] of seen) {
    figures[`jobs, ${name} completed/s`] = of(name, ({ perSecond }) => perSecond);
    figures[`jobs, ${name} round trip p50 ms`] = of(name, ({ p50Ms }) => p50Ms);
    for (const part of Object.keys(rounds[0]!.us))
      figures[`jobs, ${name} µs/job, ${part}`] = of(name, ({ us }) => us[part]!);
    if (name === "ours") continue;
    const ratio = (value: (round: TaskQueueRound) => number) => of("ours", value) / of(name, value);
    const rate = ratio(({ perSecond }) => perSecond);
    figures[`jobs, completed/s, ours/${name}`] = rate;
    figures[`jobs, processor time, ours/${name}`] = ratio(served);
    figures[`jobs, round trip p50, ours/${name}`] = ratio(({ p50Ms }) => p50Ms);
    bars[`jobs, completed/s, ours/${name}`] = atLeast(rate, RATE_MIN);
    bars[`jobs, processor time, ours/${name}`] = atMost(ratio(served), 1);
  }
  return { conditions, figures, bars };
}
