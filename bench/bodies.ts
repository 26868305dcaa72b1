/**
 * Large bodies in and out: 10 MB through a load-balanced route, whole and as they come, and through /runsync, against uvicorn behind
 * nginx, with a bare ASGI application and with FastAPI for JSON; interleaved. No two bodies are the same. The peers check no key and
 * keep nothing. Beside the rate stands the most memory that each process had.
 */
import { randomBytes } from "node:crypto";
import { LOAD_BALANCED_BODY_MAX_BYTES, RUNSYNC_BODY_MAX_BYTES } from "../src/domain/limits.ts";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atLeast, atMost, type Bench, type BenchResult, median } from "./bench.ts";
import { sendBodies } from "./body-load.ts";
import type { Target } from "./load.ts";
import { startNginx } from "./nginx.ts";
import { pythonEnvironment, startPlatform, startServer } from "./processes.ts";
import { descendants, eachUs, forgetPeak, type Parts, peakMb, processorTime, total } from "./processor-time.ts";

const MB = 1024 * 1024;
/** In, and as much out. */
const BODY_BYTES = 10_000_000;
const AT_ONCE = [1, 8, 32];
/** Of each way and number, in one round; more where more are sent at once. */
const REQUESTS = 8;
const RATE_MIN_PART = 0.8;
/** Of a platform that does nothing, with what its heap and its buffers may grow to under any load. */
const PLATFORM_BASE_MB = 250;
/** Of a worker; and how often it has the body of the one job that it runs, in bytes, text and values, in and out. */
const WORKER_BASE_MB = 50;
const WORKER_COPIES = 8;
const WORKER = `
from collections.abc import AsyncIterator

from svc import Endpoint

api = Endpoint(name="api", workers=(1, 1), max_concurrency=32)

@api.post("/whole")
async def whole(body: bytes):
    return body

@api.post("/streamed")
async def streamed(body: AsyncIterator[bytes]):
    async for part in body:
        yield part

@Endpoint(name="jobs", workers=(1, 1))
def jobs(text):
    return {"text": text}
`;

export const bench: Bench = (options) => bodies({ ...options, bytes: BODY_BYTES, atOnce: AT_ONCE, requests: REQUESTS });

interface Way {
  readonly target: Target;
  readonly parts: Parts;
}

interface Round {
  readonly perSecond: number;
  readonly refused: number;
  readonly us: Readonly<Record<string, number>>;
  readonly peakMb: Readonly<Record<string, number>>;
}

export async function bodies(options: {
  readonly rounds: number;
  readonly bytes: number;
  readonly atOnce: readonly number[];
  readonly requests: number;
}): Promise<BenchResult> {
  const { rounds, bytes, atOnce, requests } = options;
  const bin = await pythonEnvironment("fastapi", ["fastapi", "uvicorn[standard]", "python-multipart"]);
  const stops: (() => Promise<void>)[] = [];
  try {
    const peers: Record<string, { port: number; parts: Parts } | { missing: string }> = {};
    for (const app of ["asgi_app", "fastapi_app"]) {
      const uvicorn = await startServer(`${bin}/uvicorn`, (port) => [
        ...[
          "--app-dir",
          "bench/peers",
          `${app}:app`,
          "--port",
          String(port),
          "--log-level",
          "error",
          "--no-access-log",
        ],
      ]);
      stops.push(uvicorn.stop);
      const nginx = await startNginx(uvicorn.port, `client_max_body_size ${Math.ceil(bytes / MB) + 1}m;`);
      if ("stop" in nginx) stops.push(nginx.stop);
      peers[app] =
        "missing" in nginx
          ? nginx
          : {
              port: nginx.port,
              parts: { nginx: { pids: [nginx.pid], tree: true }, uvicorn: { pids: [uvicorn.pid] } },
            };
    }
    const platform = await startPlatform();
    stops.push(platform.stop);
    const urls = await platform.deploy({ "worker.py": WORKER });
    const raw = { "content-type": "application/octet-stream" };
    const json = { "content-type": "application/json" };
    const key = { authorization: `Bearer ${platform.key}` };
    const parts = async (name: string): Promise<Parts> => ({
      platform: { pids: [platform.pid] },
      worker: { pids: await platform.workerPids(name) },
    });
    const post = (url: string, headers: Record<string, string>, body: string): Target => ({
      ...{ url, headers, body },
      method: "POST",
    });
    const body = randomBytes(Math.ceil((bytes * 3) / 4))
      .toString("base64url")
      .slice(0, bytes);
    const text = JSON.stringify({ text: body });
    const ways: Record<string, Way> = {
      "ours, route": { target: post(`${urls.api}/whole`, { ...raw, ...key }, body), parts: await parts("api") },
      "ours, streamed": { target: post(`${urls.api}/streamed`, { ...raw, ...key }, body), parts: await parts("api") },
      "ours, runsync": {
        target: post(`${urls.jobs}/runsync`, { ...json, ...key }, `{"input":${text}}`),
        parts: await parts("jobs"),
      },
    };
    for (const [name, app, path, headers, sent] of [
      ["nginx + uvicorn", "asgi_app", "/", raw, body],
      ["nginx + fastapi", "fastapi_app", "/echo-async", json, text],
    ] as const) {
      const peer = peers[app]!;
      if ("missing" in peer) continue;
      ways[name] = { target: post(`http://127.0.0.1:${peer.port}${path}`, headers, sent), parts: peer.parts };
    }
    for (const { target } of Object.values(ways)) await sendBodies(target, 2, 1);
    const seen = new Map<string, Round[]>();
    for (let round = 0; round < rounds; round++) {
      for (const count of atOnce) {
        for (const [name, way] of Object.entries(ways)) {
          getOrInsert(seen, `${name} @${count}`, () => []).push(await measure(way, Math.max(requests, count), count));
        }
      }
    }
    const missing = Object.values(peers).flatMap((peer) => ("missing" in peer ? [peer.missing] : []));
    const conditions = {
      peers: missing[0] ?? "uvicorn with uvloop behind nginx as it is by default: no auth, no queue",
      load: `one Node process, ${requests} requests each, or as many as are sent at once; same machine, ${rounds} rounds interleaved`,
    };
    return told(seen, options, conditions);
  } finally {
    await Promise.all(stops.map((stop) => stop()));
  }
}

async function measure({ target, parts }: Way, requests: number, atOnce: number): Promise<Round> {
  const processes = Object.entries(parts).map(
    ([name, { pids, tree = false }]) => [name, tree ? pids.flatMap(descendants) : pids] as const,
  );
  for (const pid of processes.flatMap(([, pids]) => pids)) forgetPeak(pid);
  const spent = processorTime({ ...parts, caller: { pids: [process.pid] } });
  const { seconds, refused } = await sendBodies(target, requests, atOnce);
  const us = eachUs(spent(), requests);
  const peaks = processes.map(([name, pids]) => [name, pids.reduce((sum, pid) => sum + peakMb(pid), 0)] as const);
  return { perSecond: requests / seconds, refused, us, peakMb: Object.fromEntries(peaks) };
}

function told(
  seen: Map<string, Round[]>,
  { bytes, atOnce }: Parameters<typeof bodies>[0],
  conditions: Record<string, string>,
): BenchResult {
  const figures: Record<string, number> = {};
  const bars: Record<string, ReturnType<typeof atLeast>> = {};
  const of = (name: string, value: (round: Round) => number) => median(seen.get(name)!.map(value));
  const rate = (name: string) => (of(name, (round) => round.perSecond) * 2 * bytes) / 1e6;
  for (const at of atOnce) {
    for (const [ours, peer] of [
      ["ours, route", "nginx + uvicorn"],
      ["ours, streamed", "nginx + uvicorn"],
      ["ours, runsync", "nginx + fastapi"],
    ]) {
      if (!seen.has(`${peer} @${at}`)) continue;
      const ratio = rate(`${ours} @${at}`) / rate(`${peer} @${at}`);
      figures[`MB/s, ${ours} @${at} / ${peer}`] = ratio;
      figures[`processor time, ${ours} @${at} / ${peer}`] = of(`${ours} @${at}`, served) / of(`${peer} @${at}`, served);
      bars[`MB/s, ${ours} / ${peer} @${at}`] = atLeast(ratio, RATE_MIN_PART);
    }
  }
  for (const [name, rounds] of seen) {
    figures[`${name} MB/s`] = rate(name);
    const refused = of(name, (round) => round.refused);
    if (refused > 0) figures[`${name} told to come back`] = refused;
    for (const part of Object.keys(rounds[0]!.us)) {
      figures[`${name} ms/request, ${part}`] = of(name, ({ us }) => us[part]!) / 1000;
      if (part !== "caller") figures[`${name} peak MB, ${part}`] = of(name, ({ peakMb }) => peakMb[part]!);
    }
  }
  const most = atOnce.at(-1)!;
  const runsyncMb = WORKER_BASE_MB + (WORKER_COPIES * bytes) / MB;
  bars["worker's peak, ours, runsync"] = atMost(
    Math.max(...atOnce.map((at) => figures[`ours, runsync @${at} peak MB, worker`]!)),
    Math.round(runsyncMb),
    " MB",
  );
  for (const [way, largest] of [
    ["ours, route", LOAD_BALANCED_BODY_MAX_BYTES],
    ["ours, streamed", 0],
    ["ours, runsync", RUNSYNC_BODY_MAX_BYTES],
  ] as const) {
    // What callers may send at once is what it may hold: each body whole, where it is not passed on as it comes.
    const limit = PLATFORM_BASE_MB + (Math.min(largest, bytes) * most) / MB;
    bars[`platform's peak, ${way} @${most}`] = atMost(
      figures[`${way} @${most} peak MB, platform`]!,
      Math.round(limit),
      " MB",
    );
  }
  return {
    conditions: { body: `${bytes / 1e6} MB in and out; MB/s counts both; 1 worker`, ...conditions },
    figures,
    bars,
  };
}

function served({ us: { caller: _, ...us } }: Round): number {
  return total(us);
}
