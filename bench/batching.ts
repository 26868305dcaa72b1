/**
 * The same function, a product of a 1024 × 1024 matrix with a vector for each input, behind a route: batched by us, by LitServe and by
 * Ray Serve, and one input at a time by us. Interleaved; the peers check no key.
 */
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atLeast, type Bench, median } from "./bench.ts";
import { type CountedLoad, costFigures, countedLoad, load, requireWrk } from "./load.ts";
import { installedVersion, pythonEnvironment, startPlatform, startServers, untilAnswered } from "./processes.ts";
import type { Parts } from "./processor-time.ts";

const CONNECTIONS = [1, 16, 64];
const SECONDS = 2;
const BODY = '{"n":7}';
/** As bench/peers/litserve_app.py has it. */
const MODEL = `
import numpy as np

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)

def product(n):
    inputs = np.repeat(np.asarray(n, dtype=np.float32)[:, None], 1024, axis=1)
    return (inputs @ WEIGHTS).sum(axis=1).tolist()
`;
const WORKER = `
import svc
from svc import Endpoint
from model import product

api = Endpoint(name="batched", workers=(1, 1), dependencies=["numpy"])
single = Endpoint(name="single", workers=(1, 1), dependencies=["numpy"])

@api.post("/predict")
@svc.batched(max_size=16, wait_ms=5)
def predict(n: list[float]) -> list[float]:
    return product(n)

@single.post("/predict")
def predict_one(n: float) -> float:
    return product([n])[0]
`;

export const bench: Bench = async ({ rounds }) => {
  const wrk = await requireWrk();
  const bin = await pythonEnvironment("litserve", ["litserve", "numpy"]);
  const rayBin = await pythonEnvironment("ray", ["ray[serve]", "numpy"]);
  const started: { stop(): Promise<void> }[] = [];
  const stopped = async <T extends { stop(): Promise<void> }>(server: Promise<T>): Promise<T> => {
    started.push(await server);
    return server;
  };
  try {
    const platform = await stopped(startPlatform());
    const litserve = await stopped(startServers(`${bin}/python`, (at) => ["bench/peers/litserve_app.py", `${at}`]));
    const ray = await stopped(startServers(`${rayBin}/python`, (at) => ["bench/peers/ray_app.py", `${at}`]));
    const urls = await platform.deploy({ "worker.py": WORKER, "model.py": MODEL });
    const key = { authorization: `Bearer ${platform.key}` };
    const ways: Record<string, [url: string, headers: Record<string, string>]> = {
      "ours, batched": [`${urls.batched}/predict`, key],
      "ours, one by one": [`${urls.single}/predict`, key],
      litserve: [`http://127.0.0.1:${litserve.port}/predict`, {}],
      ray: [`http://127.0.0.1:${ray.port}/predict`, {}],
    };
    const target = ([url, headers]: [string, Record<string, string>]) => ({
      url,
      method: "POST" as const,
      headers: { "content-type": "application/json", ...headers },
      body: BODY,
    });
    for (const way of Object.values(ways)) {
      const [url, headers] = way;
      await untilAnswered(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: BODY,
      });
      await load(target(way), 16, SECONDS);
    }
    const ours = async (name: string): Promise<Parts> => ({
      platform: { pids: [platform.pid] },
      worker: { pids: await platform.workerPids(name) },
    });
    const parts: Record<string, Parts> = {
      "ours, batched": await ours("batched"),
      "ours, one by one": await ours("single"),
      litserve: { "all its processes": { pids: [litserve.pid], tree: true } },
      ray: { "all its processes": { pids: [ray.pid], tree: true } },
    };
    const seen = new Map<string, CountedLoad[]>();
    for (let round = 0; round < rounds; round++) {
      for (const connections of CONNECTIONS) {
        for (const [name, way] of Object.entries(ways)) {
          const loads = getOrInsert(seen, `${name} @${connections}`, () => []);
          loads.push(await countedLoad(target(way), parts[name]!, connections, SECONDS));
        }
      }
    }
    const rate = (name: string) => median(seen.get(name)!.map((one) => one.requestsPerSecond));
    const figures: Record<string, number> = {};
    for (const [name, loads] of seen) {
      figures[`${name} requests/s`] = rate(name);
      figures[`${name} p50 ms`] = median(loads.map((one) => one.p50Ms));
      Object.assign(figures, costFigures(name, loads));
    }
    for (const at of CONNECTIONS) {
      for (const peer of ["litserve", "ray"]) {
        figures[`batched/${peer} @${at}`] = rate(`ours, batched @${at}`) / rate(`${peer} @${at}`);
      }
      figures[`batched/one by one @${at}`] = rate(`ours, batched @${at}`) / rate(`ours, one by one @${at}`);
    }
    return {
      conditions: {
        function: "numpy: 1024 numbers × a matrix of 1024 × 1024 for each input; max_size 16, wait 5 ms; 1 worker",
        ours: "auth on, Server-Timing on",
        peers: `litserve ${await installedVersion(bin, "litserve")}, ray ${await installedVersion(rayBin, "ray")}: no auth`,
        load: `${wrk}, 1 thread, ${SECONDS} s each, same machine, ${rounds} rounds interleaved`,
      },
      figures,
      bars: {
        "batched/litserve @64": atLeast(figures["batched/litserve @64"]!, 1),
        "batched/ray @64": atLeast(figures["batched/ray @64"]!, 1),
      },
    };
  } finally {
    await Promise.all(started.map((each) => each.stop()));
  }
};
