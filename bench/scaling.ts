/**
 * The scaler in a discrete-event simulation: the real `decide` against (a) one worker per waiting request, (b) a fixed 2 s
 * tick that wants concurrency / 0.7 workers over a 60 s window, as Knative does for one request a worker, (c) ceil(queue / 5)
 * every 30 s with a cool-down of 300 s, as KEDA's queue scalers do. Same arrivals, same start-up time, at most 30 workers.
 */
import Table from "cli-table3";
import type { Bar, Bench } from "./bench.ts";
import { createRandom, SHAPES } from "./scaling/shapes.ts";
import { POLICIES, simulate } from "./scaling/simulator.ts";

export const bench: Bench = async () => {
  const figures: Record<string, number> = {};
  const bars: Record<string, Bar> = {};
  const table = new Table({
    head: ["shape", "policy", "p50 wait s", "p95", "p99", "worker-s", "starts"],
    style: { head: [], border: [] },
  });
  for (const [shape, make] of Object.entries(SHAPES)) {
    const jobs = make(createRandom(7));
    const results = Object.entries(POLICIES).map(([name, policy]) => [name, simulate(jobs, policy())] as const);
    for (const [name, result] of results) {
      const { p50, p95, p99, workerSeconds, starts } = result;
      table.push([shape, name, p50.toFixed(2), p95.toFixed(2), p99.toFixed(2), workerSeconds.toFixed(0), starts]);
      figures[`${shape}: ${name} p95 wait s`] = p95;
      figures[`${shape}: ${name} worker-seconds`] = workerSeconds;
    }
    const ours = results.find(([name]) => name === "ours")![1];
    for (const [name, other] of results) {
      if (!name.startsWith("(b)") && !name.startsWith("(c)")) continue;
      const value = ours.p95 / Math.max(other.p95, 0.001);
      const holds = ours.p95 <= other.p95 && ours.workerSeconds <= other.workerSeconds;
      bars[`${shape}: ours/${name}`] = { value, bar: "p95 ≤ 1 × at no more worker-seconds", holds };
    }
  }
  console.log(table.toString());
  return {
    conditions: {
      workers: "at most 30, one job at a time, 1 s to start",
      seed: "7",
      ours: "QUEUE_DELAY 4 s, idle time-out 5 s",
    },
    figures,
    bars,
  };
};
