/**
 * `npm run bench -- NAME [--rounds N] [--part PART]` runs one benchmark, or one part of it, prints a table with its conditions, and closes with one line of
 * JSON: {"bench","conditions","figures","bars"}. Without a name it lists them.
 */
import { availableParallelism, constants, loadavg } from "node:os";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import { endAll } from "../test/ends.ts";
import type { Bench } from "./bench.ts";
import { usedMs } from "./processor-time.ts";

const BENCHES: Record<string, { about: string; load: () => Promise<{ bench: Bench }> }> = {
  batching: {
    about: "svc.batched against LitServe, Ray Serve and one input at a time: a product of matrices behind a route",
    load: () => import("./batching.ts"),
  },
  bodies: {
    about:
      "10 MB in and out through a route and /runsync, 1, 8 and 32 at a time, against nginx and uvicorn: rate, memory",
    load: () => import("./bodies.ts"),
  },
  build: {
    about: "start of the CLI; svc build: nothing changed, an edit under 500 MB, a first install beside pip and uv",
    load: () => import("./build.ts"),
  },
  cluster: {
    about:
      "the chart on a real cluster of two nodes: install, starts with API writes refused, drain, a lost node (make test-cluster first; --part cold, drain, loss)",
    load: () => import("./cluster.ts"),
  },
  "cold-start": {
    about: "zero → first result: zygote there, nothing there, plain spawn; memory per worker",
    load: () => import("./cold-start.ts"),
  },
  deploy: {
    about: "svc deploy: first, nothing changed, one line, one line under 500 MB of dependencies",
    load: () => import("./deploy.ts"),
  },
  "dev-loop": {
    about: "svc run: from a save to the answer of the new code",
    load: () => import("./dev-loop.ts"),
  },
  chaos: {
    about: "the kill matrix: parts of the platform are killed, stopped, cut off, starved; nothing may be lost",
    load: () => import("./chaos.ts"),
  },
  fuzz: {
    about: "made-up requests, frames, archives and texts: no crash, no hang, no 500; 5 rounds are a million",
    load: () => import("./fuzz.ts"),
  },
  gateways: {
    about: "processor time of a request with 0, 1 and 3 gateway processes; with 8 cores also what they bring",
    load: () => import("./gateways.ts"),
  },
  hosts: {
    about:
      "workers of a host that joined beside those of the platform's own machine; placing 3,000 workers on 100 hosts",
    load: () => import("./hosts.ts"),
  },
  many: {
    about:
      "10,000 endpoints that nobody calls and 10,000 open connections: start, memory, rate, processor time at rest",
    load: () => import("./many.ts"),
  },
  peers: {
    about:
      "the same functions in LitServe, BentoML and Ray Serve, jobs in Celery, RQ, Dramatiq, Huey and Procrastinate",
    load: () => import("./peers.ts"),
  },
  "queue-depth": {
    about: "1,000,000 queued jobs: claim rate against an empty queue, memory",
    load: () => import("./queue-depth.ts"),
  },
  failover: {
    about:
      "PostgreSQL's primary is killed under load, its synchronous standby promoted (--rounds: how often); nothing may be lost",
    load: () => import("./failover.ts"),
  },
  ownership: {
    about:
      "schedules of replicas, network and database that a seed chooses: no job is lost or ends twice (--rounds: thousands)",
    load: () => import("./ownership.ts"),
  },
  postgres: {
    about:
      "the queue on PostgreSQL against the embedded one and against queues on the same PostgreSQL (--part deep: a million jobs)",
    load: () => import("./postgres.ts"),
  },
  redeploy: {
    about: "deploys of new code under calls of every kind: none may fail (--rounds: deploys)",
    load: () => import("./redeploy.ts"),
  },
  replicas: {
    about:
      "three platforms on one database: one is killed every 20 s, stands still, stops (--rounds: kills, stops; --part faults, handover, cost, many)",
    load: () => import("./replicas.ts"),
  },
  soak: {
    about: "mixed calls for minutes: memory and descriptors stay flat (--rounds: minutes)",
    load: () => import("./soak.ts"),
  },
  scale: {
    about:
      "1,000 hosts in Pods of simulated nodes, 10,000 endpoints, 30,000 workers: placement, take-over, memory, requests (--part HOSTS; make test-cluster first)",
    load: () => import("./scale.ts"),
  },
  scaling: {
    about: "the scaler in simulation against a tick of 2 s and a queue scaler of 30 s",
    load: () => import("./scaling.ts"),
  },
  streams: {
    about: "1,000 streams of 50 chunks/s through a route, /stream and the OpenAI route, against nginx and uvicorn",
    load: () => import("./streams.ts"),
  },
  "load-balanced": {
    about: "a JSON route against FastAPI, bare ASGI and nginx in front of FastAPI",
    load: () => import("./load-balanced.ts"),
  },
  queue: { about: "runsync against bare node:http, FastAPI and Celery + Redis", load: () => import("./queue.ts") },
  transport: {
    about: "round trips per second between Node and one worker, against a bare echo over a Unix socket",
    load: () => import("./transport.ts"),
  },
};

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => void endAll().finally(() => process.exit(128 + constants.signals[signal])));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "5" }, part: { type: "string" } },
});
const name = positionals[0];
const entry = name === undefined ? undefined : BENCHES[name];
if (entry === undefined) {
  if (name !== undefined) console.error(`There is no benchmark "${name}".`);
  for (const [key, { about }] of Object.entries(BENCHES)) console.log(`${key.padEnd(14)}${about}`);
  process.exitCode = name === undefined ? 0 : 1;
} else {
  const { bench } = await entry.load();
  const [before] = loadavg();
  const measured = await bench({ rounds: Number(values.rounds), part: values.part });
  const machine = `load ${before!.toFixed(1)} before, ${loadavg()[0]!.toFixed(1)} after, ${availableParallelism()} processors`;
  const processor = `${(usedMs(process.pid, true) / 1000).toFixed(1)} s of this program and of all that it started and saw end`;
  const result = { ...measured, conditions: { ...measured.conditions, machine, "processor time": processor } };
  const table = new Table({ head: ["figure", "median"], style: { head: [], border: [] } });
  for (const [figure, value] of Object.entries(result.figures)) table.push([figure, shown(value)]);
  console.log(table.toString());
  const bars = new Table({ head: ["bar", "value", "must be", "holds"], style: { head: [], border: [] } });
  for (const [bar, { value, bar: limit, holds }] of Object.entries(result.bars)) {
    bars.push([bar, shown(value), limit, holds ? "yes" : "NO"]);
  }
  if (Object.keys(result.bars).length > 0) console.log(bars.toString());
  for (const [key, value] of Object.entries(result.conditions)) console.log(`${key}: ${value}`);
  console.log(JSON.stringify({ bench: name, ...result }));
}

function shown(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
