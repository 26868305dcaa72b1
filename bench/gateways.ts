/**
 * What gateway processes cost and bring: processor time for each request of the gateways, of their owner and of the workers, for platforms with 0, 1 and 3
 * of them in turns. Rates count only where there are cores for all that takes part.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atLeast, type Bar, type Bench, median } from "./bench.ts";
import { type CountedLoad, costFigures, countedLoad, load, requireWrk, type Target } from "./load.ts";
import { startPlatform } from "./processes.ts";
import type { Parts } from "./processor-time.ts";

const COUNTS = [0, 1, 3];
const CONNECTIONS = 64;
const SECONDS = 3;
/** Owner, three gateways, two workers, the load and what else runs. */
const CORES_FOR_RATES = 8;
const WORKERS = 2;
const WORKER = `
from svc import Endpoint

@Endpoint(name="job", workers=(${WORKERS}, ${WORKERS}), max_concurrency=64)
async def job(text: str) -> dict:
    return {"text": text}

api = Endpoint(name="route", workers=(${WORKERS}, ${WORKERS}), max_concurrency=64)

@api.post("/echo")
async def echo(text: str) -> dict:
    return {"text": text}
`;

export const bench: Bench = async ({ rounds }) => {
  const wrk = await requireWrk();
  const cores = availableParallelism();
  const platforms = await Promise.all(
    COUNTS.map(async (count) => {
      const platform = await startPlatform({ SVC_GATEWAYS: String(count) });
      const urls = await platform.deploy({ "worker.py": WORKER });
      const headers = { "content-type": "application/json", authorization: `Bearer ${platform.key}` };
      const gateways = gatewayPids(platform.dataDir);
      const ways = await Promise.all(
        ["runsync", "route"].map(async (way) => {
          const [url, body] =
            way === "route"
              ? [`${urls.route}/echo`, { text: "hello" }]
              : [`${urls.job}/runsync`, { input: { text: "hello" } }];
          const target: Target = { url, method: "POST", headers, body: JSON.stringify(body) };
          const parts: Parts = {
            owner: { pids: [platform.pid] },
            ...(count > 0 && { gateways: { pids: gateways } }),
            workers: { pids: await platform.workerPids(way === "route" ? "route" : "job") },
          };
          return { name: `${way}, N=${count}`, target, parts };
        }),
      );
      return { platform, ways };
    }),
  );
  try {
    const ways = platforms.flatMap((one) => one.ways);
    // Code that was never run is slow at first.
    for (const { target } of ways) await load(target, CONNECTIONS, SECONDS);
    const seen = new Map<string, CountedLoad[]>();
    for (let round = 0; round < rounds; round++) {
      for (const { name, target, parts } of ways) {
        getOrInsert(seen, name, () => []).push(await countedLoad(target, parts, CONNECTIONS, SECONDS));
      }
    }
    const rate = (name: string) => median(seen.get(name)!.map(({ requestsPerSecond }) => requestsPerSecond));
    const owner = (name: string) => median(seen.get(name)!.map(({ us }) => us.owner!));
    const figures: Record<string, number> = {};
    for (const [name, loads] of seen) {
      Object.assign(figures, costFigures(name, loads));
      if (cores >= CORES_FOR_RATES) figures[`${name} requests/s`] = rate(name);
    }
    for (const way of ["runsync", "route"]) {
      figures[`${way}: owner with 3 gateways / without`] = owner(`${way}, N=3`) / owner(`${way}, N=0`);
    }
    const gain = (way: string) => rate(`${way}, N=3`) / rate(`${way}, N=0`);
    const bars: Record<string, Bar> =
      cores < CORES_FOR_RATES
        ? {}
        : {
            "load-balanced, requests/s with 3 gateways / without": atLeast(gain("route"), 1.8),
            "runsync of one endpoint, the same": atLeast(gain("runsync"), 1.3),
          };
    const conditions = { wrk, cores: String(cores), connections: String(CONNECTIONS), workers: String(WORKERS) };
    return { conditions, figures, bars };
  } finally {
    await Promise.all(platforms.map(({ platform }) => platform.stop()));
  }
};

function gatewayPids(dataDir: string): number[] {
  return JSON.parse(readFileSync(path.join(dataDir, "platform.json"), "utf8")).gateways?.pids ?? [];
}
