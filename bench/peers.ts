/**
 * What else a function could be put behind, all in one run and in turns: servers of models (LitServe, BentoML, Ray Serve) with the same two
 * functions, cold starts where they scale to zero, batching (bench/batching.ts), and task queues with the same task. Each peer is set
 * up as its documentation does it. The peers check no key. One that cannot be had here is named.
 */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { bench as batching } from "./batching.ts";
import { atLeast, atMost, type Bar, type Bench, type BenchResult, median } from "./bench.ts";
import { type CountedLoad, costFigures, countedLoad, load, requireWrk, type Target } from "./load.ts";
import { jobs } from "./peer-jobs.ts";
import {
  installedVersion,
  type Peer,
  pythonEnvironment,
  startPlatform,
  startServers,
  untilAnswered,
} from "./processes.ts";
import { descendants, type Parts, total } from "./processor-time.ts";

const CONNECTIONS = [1, 16, 64];
const SECONDS = 2;
const RATE_MIN = 1.5;
const GONE_MAX_MS = 60_000;
const JSON_TYPE = { "content-type": "application/json" };
const TEXT = "x".repeat(80);
const BODIES = { echo: JSON.stringify({ text: TEXT }), product: '{"n":7}' };
const WORKER = `
import numpy as np
from svc import Endpoint

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)
api = Endpoint(name="api", workers=(1, 1), dependencies=["numpy"])

@api.post("/echo")
def echo(text: str) -> dict:
    return {"text": text}

@api.post("/product")
def product(n: float) -> float:
    return float((np.full(1024, n, dtype=np.float32) @ WEIGHTS).sum())
`;
const COLD = `
from svc import Endpoint

cold = Endpoint(name="cold", workers=(0, 1), idle_timeout=1)

@cold.post("/cold")
def echo(text: str) -> dict:
    return {"text": text}
`;

/** The server of models by its name: its packages, and how it is started. */
const SERVERS: Record<string, { packages: string[]; start(bin: string): Promise<Peer> }> = {
  litserve: {
    packages: ["litserve", "numpy"],
    start: (bin) => startServers(`${bin}/python`, (port) => ["bench/peers/litserve_calls.py", `${port}`]),
  },
  bentoml: {
    packages: ["bentoml", "numpy"],
    start: (bin) => {
      const where = ["--working-dir", "bench/peers", "--host", "127.0.0.1"];
      const args = (port: number) => ["serve", "bento_calls:Calls", ...where, "--port", `${port}`];
      return startServers(`${bin}/bentoml`, args, { BENTOML_DO_NOT_TRACK: "True", BENTOML_HOME: `${bin}/../home` });
    },
  },
  ray: {
    packages: ["ray[serve]", "numpy"],
    start: (bin) => startServers(`${bin}/python`, (port) => ["bench/peers/ray_calls.py", `${port}`]),
  },
};

export const bench: Bench = (options) =>
  peers({ ...options, connections: CONNECTIONS, seconds: SECONDS, tasks: undefined, withBatching: true });

export async function peers(options: {
  readonly rounds: number;
  readonly connections: readonly number[];
  readonly seconds: number;
  /** Of each task queue in a round; undefined: as many as it does in some seconds. */
  readonly tasks: number | undefined;
  readonly withBatching: boolean;
}): Promise<BenchResult> {
  const wrk = await requireWrk();
  const called = await calls(options);
  const done = await jobs(options);
  const batched = options.withBatching ? await batching(options) : { conditions: {}, figures: {}, bars: {} };
  const nuclio = await whyNoNuclio();
  const all: BenchResult[] = [called, done, named(batched, "batching: ")];
  const leftOut = [called, done].map(({ conditions }) => conditions["left out"]).filter(Boolean);
  return {
    conditions: {
      ...Object.assign({}, ...all.map(({ conditions }) => conditions)),
      "left out": [...leftOut, nuclio].join("; "),
      load: `${wrk}, 1 thread, ${options.seconds} s each, same machine, ${options.rounds} rounds interleaved`,
    },
    figures: ratiosFirst(Object.assign({}, ...all.map(({ figures }) => figures))),
    bars: Object.assign({}, ...all.map(({ bars }) => bars)),
  };
}

/** Warm calls, and cold ones where a peer scales to zero. */
async function calls({ rounds, connections, seconds }: Parameters<typeof peers>[0]): Promise<BenchResult> {
  const started: { stop(): Promise<void> }[] = [];
  const leftOut: string[] = [];
  const versions: string[] = [];
  try {
    const platform = await startPlatform();
    started.push(platform);
    const urls = await platform.deploy({ "worker.py": WORKER, "cold.py": COLD });
    const ways: Record<string, { base: string; headers: Record<string, string>; parts: Parts }> = {
      ours: {
        base: urls.api!,
        headers: { authorization: `Bearer ${platform.key}` },
        parts: { platform: { pids: [platform.pid] }, worker: { pids: await platform.workerPids("api") } },
      },
    };
    for (const [name, { packages, start }] of Object.entries(SERVERS)) {
      try {
        const bin = await pythonEnvironment(name, packages);
        const server = await start(bin);
        started.push(server);
        const parts = { "all its processes": { pids: [server.pid], tree: true } };
        ways[name] = { base: `http://127.0.0.1:${server.port}`, headers: {}, parts };
        versions.push(`${name} ${await installedVersion(bin, name)}`);
      } catch (error) {
        leftOut.push(`${name}: ${(error as Error).message}`);
      }
    }
    const target = (name: string, path: keyof typeof BODIES | "cold"): Target => ({
      url: `${ways[name]!.base}/${path}`,
      method: "POST",
      headers: { ...JSON_TYPE, ...ways[name]!.headers },
      body: path === "cold" ? BODIES.echo : BODIES[path],
    });
    const functions = Object.keys(BODIES) as (keyof typeof BODIES)[];
    for (const name of Object.keys(ways)) {
      for (const path of functions) {
        const { url, ...init } = target(name, path);
        await untilAnswered(url, init);
        await load(target(name, path), 16, seconds);
      }
    }
    const seen = new Map<string, CountedLoad[]>();
    const cold = new Map<string, number[]>();
    const coldCall = async (
      name: string,
      url: string,
      headers: Record<string, string>,
      isWarm: () => Promise<boolean>,
    ) => {
      await gone(isWarm);
      const before = performance.now();
      await untilAnswered(url, { method: "POST", headers: { ...JSON_TYPE, ...headers }, body: BODIES.echo });
      getOrInsert(cold, name, () => []).push(performance.now() - before);
    };
    for (let round = 0; round < rounds; round++) {
      for (const path of functions) {
        for (const at of connections) {
          for (const [name, { parts }] of Object.entries(ways)) {
            const loads = getOrInsert(seen, `${path}, ${name} @${at}`, () => []);
            loads.push(await countedLoad(target(name, path), parts, at, seconds));
          }
        }
      }
      const oursIsWarm = async () => (await platform.workerPids("cold")).length > 0;
      await coldCall("ours", `${urls.cold}/cold`, ways.ours!.headers, oursIsWarm);
      const { ray } = ways;
      if (ray === undefined) continue;
      const root = ray.parts["all its processes"]!.pids[0]!;
      await coldCall("ray", `${ray.base}/cold`, {}, async () => descendants(root).some(isColdReplica));
    }
    return toldOfCalls(seen, cold, functions, connections, {
      functions:
        "echo: 80 characters as JSON; product: numpy, 1024 numbers × a matrix of 1024 × 1024; 1 worker or replica each",
      ours: "a sync route of a load-balanced endpoint, auth on",
      peers: `${versions.join(", ")}: no auth; ray's echo and product are async, as its documentation has them`,
      "cold start": "no worker or replica → first answer; litserve and bentoml do not scale to zero by themselves",
      ...(leftOut.length > 0 && { "left out": leftOut.join("; ") }),
    });
  } finally {
    await Promise.all(started.map((each) => each.stop()));
  }
}

function toldOfCalls(
  seen: Map<string, CountedLoad[]>,
  cold: Map<string, number[]>,
  functions: readonly string[],
  connections: readonly number[],
  conditions: Record<string, string>,
): BenchResult {
  const figures: Record<string, number> = {};
  const bars: Record<string, Bar> = {};
  const of = (name: string, value: (one: CountedLoad) => number) => median(seen.get(name)!.map(value));
  for (const path of functions) {
    for (const at of connections) {
      for (const peer of Object.keys(SERVERS)) {
        const [ours, theirs] = [`${path}, ours @${at}`, `${path}, ${peer} @${at}`];
        if (!seen.has(theirs)) continue;
        const ratio = (value: (one: CountedLoad) => number) => of(ours, value) / of(theirs, value);
        const rate = ratio((one) => one.requestsPerSecond);
        const cost = ratio(({ us }) => total(us));
        figures[`${path}, requests/s, ours/${peer} @${at}`] = rate;
        figures[`${path}, processor time, ours/${peer} @${at}`] = cost;
        figures[`${path}, p50, ours/${peer} @${at}`] = ratio((one) => one.p50Ms);
        if (path !== "echo" || at !== connections.at(-1)) continue;
        bars[`echo, requests/s, ours/${peer} @${at}`] = atLeast(rate, RATE_MIN);
        bars[`echo, processor time, ours/${peer} @${at}`] = atMost(cost, 1);
      }
    }
  }
  for (const [name, loads] of seen) {
    figures[`${name} requests/s`] = of(name, (one) => one.requestsPerSecond);
    figures[`${name} p50 ms`] = of(name, (one) => one.p50Ms);
    Object.assign(figures, costFigures(name, loads));
  }
  for (const [name, times] of cold) figures[`cold start, ${name} ms`] = median(times);
  if (cold.has("ray")) {
    const ratio = figures["cold start, ours ms"]! / figures["cold start, ray ms"]!;
    figures["cold start, ours/ray"] = ratio;
    bars["cold start, ours/ray"] = atMost(ratio, 1);
  }
  return { conditions, figures, bars };
}

function named({ conditions, figures, bars }: BenchResult, prefix: string): BenchResult {
  const renamed = <T>(values: Readonly<Record<string, T>>) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value]));
  return { conditions: renamed(conditions), figures: renamed(figures), bars: renamed(bars) };
}

function ratiosFirst(figures: Readonly<Record<string, number>>): Record<string, number> {
  const isRatio = ([name]: readonly [string, number]) => /ours\/|batched\//.test(name);
  const all = Object.entries(figures);
  return Object.fromEntries([...all.filter(isRatio), ...all.filter((figure) => !isRatio(figure))]);
}

async function gone(isWarm: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + GONE_MAX_MS;
  while (await isWarm()) {
    if (performance.now() > end) throw new Error(`what should scale to zero is still there after ${GONE_MAX_MS} ms`);
    await delay(50);
  }
}

/** Ray names its processes for what they do. */
function isColdReplica(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("ray::ServeReplica:Cold");
  } catch {
    return false; // It has just ended.
  }
}

/** Its processor could only be built from its Go module. */
async function whyNoNuclio(): Promise<string> {
  const go = await runProcess("go", ["list", "-m", "github.com/nuclio/nuclio@latest"], { cwd: "/" }).catch(
    () => undefined,
  );
  if (go === undefined) return "nuclio: its processor is built from its Go module, and there is no go here";
  if (go.code !== 0) return `nuclio: its Go module cannot be had here (${go.stderr.trim().split("\n").at(-1)?.trim()})`;
  return "nuclio: its Go module can be had here, and this bench does not know yet how to run it";
}
