/**
 * Streams of a language model's shape, 50 chunks a second each: through a load-balanced route, a queue's `/stream` and the OpenAI
 * route, against uvicorn with a bare ASGI application, and nginx in front of that, interleaved. All stream from one Python
 * process. The peers check no key, and what they stream is gone with their process.
 */
import { setTimeout as delay } from "node:timers/promises";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { atLeast, type Bench, type BenchResult, median } from "./bench.ts";
import { startNginx } from "./nginx.ts";
import { type BenchPlatform, pythonEnvironment, startPlatform, startServer } from "./processes.ts";
import { eachUs, type Parts, processorTime, total } from "./processor-time.ts";
import { readStreams, type StreamRequest, type StreamsSeen } from "./stream-load.ts";

/** At the first, all are busy; the delay is told by the second, which no side should find hard. */
const COUNTS = [1_000, 100];
const CHUNKS_PER_S = 50;
const SECONDS = 2;
const SETTLE_MS = 500;
/** Calls at a time while jobs are handed in and cancelled. */
const CALLS = 32;
const JSON_TYPE = { "content-type": "application/json" };
const WORKER = `
import asyncio
import json
import time

from svc import Endpoint

PAUSE_S = ${1 / CHUNKS_PER_S}
many = {"workers": (1, 1), "max_concurrency": 1000}
api = Endpoint(name="api", **many)

def word():
    return f"@{time.monotonic_ns() // 1000:016d} "

def completion():
    choice = {"index": 0, "finish_reason": None, "delta": {"content": word()}}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

async def chunks(made):
    while True:
        yield made()
        await asyncio.sleep(PAUSE_S)

@api.post("/plain")
async def plain():
    async for text in chunks(word):
        yield f"data: {json.dumps(text)}\\n\\n"

@Endpoint(name="jobs", **many)
async def jobs():
    async for text in chunks(word):
        yield text

@Endpoint(name="openai", **many)
async def openai(openai_route, openai_input):
    async for chunk in chunks(completion):
        yield chunk
`;

export const bench: Bench = (options) => streams({ ...options, counts: COUNTS, seconds: SECONDS });

interface Way {
  readonly parts: Parts;
  /** What opens each of so many streams; `left` is called when they were left behind. */
  begin(count: number): Promise<{ requests: StreamRequest[]; left?: () => Promise<void> }>;
}

interface Round extends StreamsSeen {
  readonly us: Record<string, number>;
}

export async function streams(options: {
  readonly rounds: number;
  /** How many streams at a time: the rate is told of the first, the delay of the last. */
  readonly counts: readonly number[];
  readonly seconds: number;
}): Promise<BenchResult> {
  const { rounds, counts, seconds } = options;
  const bin = await pythonEnvironment("fastapi", ["fastapi", "uvicorn[standard]", "python-multipart"]);
  const uvicorn = await startServer(`${bin}/uvicorn`, (port) => [
    ...[
      "--app-dir",
      "bench/peers",
      "stream_app:app",
      "--port",
      String(port),
      "--log-level",
      "error",
      "--no-access-log",
    ],
    ...["--backlog", "4096"],
  ]);
  const stops = [uvicorn.stop];
  try {
    const nginx = await startNginx(uvicorn.port, "proxy_buffering off;");
    if ("stop" in nginx) stops.push(nginx.stop);
    const platform = await startPlatform();
    stops.push(platform.stop);
    const ways: Record<string, Way> = {
      ...(await ourWays(platform)),
      ...("port" in nginx && {
        "nginx + uvicorn": proxied(nginx.port, "/plain", { nginx: nginx.pid, uvicorn: uvicorn.pid }),
        "nginx + uvicorn, OpenAI": proxied(nginx.port, "/openai", { nginx: nginx.pid, uvicorn: uvicorn.pid }),
      }),
      uvicorn: proxied(uvicorn.port, "/plain", { uvicorn: uvicorn.pid }),
    };
    const seen = new Map<string, Round[]>();
    for (let round = 0; round < rounds; round++) {
      for (const count of counts) {
        for (const [name, way] of Object.entries(ways)) {
          getOrInsert(seen, `${name} @${count}`, () => []).push(await measure(way, count, seconds));
        }
      }
    }
    return told(seen, options, {
      peers: `uvicorn ${await version(bin, "uvicorn")} with uvloop, bare ASGI: no auth; nginx: ${"missing" in nginx ? nginx.missing : "unbuffered proxy"}`,
    });
  } finally {
    await Promise.all(stops.map((stop) => stop()));
  }
}

async function measure(way: Way, count: number, seconds: number): Promise<Round> {
  const { requests, left } = await way.begin(count);
  let spent: () => Record<string, number> = () => ({});
  let ms: Record<string, number> = {};
  const begin = () => {
    spent = processorTime({ ...way.parts, reader: { pids: [process.pid] } });
  };
  const end = () => {
    ms = spent();
  };
  try {
    const seen = await readStreams(requests, { settleMs: SETTLE_MS, seconds, begin, end });
    return { ...seen, us: eachUs(ms, seen.chunks) };
  } finally {
    await left?.();
    await delay(200); // Functions end, and what they held is cleared away.
  }
}

function proxied(port: number, path: string, pids: Readonly<Record<string, number>>): Way {
  const request: StreamRequest = { port, method: "POST", path, headers: JSON_TYPE, body: "{}" };
  const parts = Object.entries(pids).map(([name, pid]) => [name, { pids: [pid], tree: true }] as const);
  return {
    parts: Object.fromEntries(parts),
    begin: async (count) => ({ requests: Array.from({ length: count }, () => request) }),
  };
}

async function ourWays(platform: BenchPlatform): Promise<Record<string, Way>> {
  const urls = await platform.deploy({ "worker.py": WORKER });
  const headers = { ...JSON_TYPE, authorization: `Bearer ${platform.key}` };
  const port = Number(new URL(platform.url).port);
  const post = (url: string, path: string, body: string): StreamRequest => ({
    ...{ port, headers, body, method: "POST" },
    path: `${new URL(url).pathname.replace(/\/$/, "")}${path}`,
  });
  const call = async (path: string, body = "{}") => {
    const answer = await fetch(path, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(`${path} was answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as { id: string };
  };
  const parts = async (name: string): Promise<Parts> => ({
    platform: { pids: [platform.pid] },
    worker: { pids: await platform.workerPids(name) },
  });
  const same = (request: StreamRequest) => async (count: number) => ({
    requests: Array.from({ length: count }, () => request),
  });
  const asked = '{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}';
  return {
    "ours, route": { parts: await parts("api"), begin: same(post(urls.api!, "/plain", "{}")) },
    "ours, /stream": {
      parts: await parts("jobs"),
      begin: async (count) => {
        const jobs = await inTurns(count, () => call(`${urls.jobs}/run`, '{"input":{}}'));
        const requests = jobs.map(({ id }) => {
          const { body, ...request } = post(urls.jobs!, `/stream/${id}`, "");
          return { ...request, body, method: "GET" as const, headers: { ...headers, accept: "text/event-stream" } };
        });
        const left = async () => {
          await inTurns(count, (n) => call(`${urls.jobs}/cancel/${jobs[n]!.id}`));
        };
        return { requests, left };
      },
    },
    "ours, OpenAI": {
      parts: await parts("openai"),
      begin: same(post(urls.openai!, "/openai/v1/chat/completions", asked)),
    },
  };
}

async function inTurns<T>(count: number, one: (n: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let n = 0; n < count; n += CALLS) {
    const some = Array.from({ length: Math.min(CALLS, count - n) }, (_, i) => one(n + i));
    results.push(...(await Promise.all(some)));
  }
  return results;
}

async function version(bin: string, name: string): Promise<string | undefined> {
  const { stdout } = await runProcess(`${bin}/python`, ["-m", "pip", "freeze"]);
  return new RegExp(`^${name}==(.*)$`, "m").exec(stdout)?.[1];
}

function told(
  seen: Map<string, Round[]>,
  { rounds, counts, seconds }: Parameters<typeof streams>[0],
  peers: Record<string, string>,
): BenchResult {
  const figures: Record<string, number> = {};
  const of = (name: string, value: (round: Round) => number) => median(seen.get(name)!.map(value));
  const rate = (name: string) => of(name, (round) => round.chunks / round.seconds);
  const cost = (name: string) => of(name, ({ us: { reader: _, ...us } }) => total(us));
  const pairs = [
    ["ours, route", "nginx + uvicorn"],
    ["ours, /stream", "nginx + uvicorn"],
    ["ours, OpenAI", "nginx + uvicorn, OpenAI"],
    ["ours, route", "uvicorn"],
  ].filter(([, peer]) => seen.has(`${peer} @${counts[0]}`)) as [string, string][];
  for (const at of counts) {
    for (const [ours, peer] of pairs) {
      const [a, b] = [`${ours} @${at}`, `${peer} @${at}`];
      figures[`chunks/s, ${a} / ${peer}`] = rate(a) / rate(b);
      figures[`processor time, ${a} / ${peer}`] = cost(a) / cost(b);
      figures[`delay p99, ${a} / ${peer}`] =
        of(a, ({ delayP99Ms }) => delayP99Ms) / of(b, ({ delayP99Ms }) => delayP99Ms);
    }
  }
  for (const [name, all] of seen) {
    for (const part of Object.keys(all[0]!.us)) figures[`${name} µs/chunk, ${part}`] = of(name, ({ us }) => us[part]!);
    figures[`${name} chunks/s`] = rate(name);
    figures[`${name} delay p50 ms`] = of(name, ({ delayP50Ms }) => delayP50Ms);
    figures[`${name} delay p99 ms`] = of(name, ({ delayP99Ms }) => delayP99Ms);
  }
  const [most] = counts;
  const held = Object.fromEntries(
    pairs.map(([ours, peer]) => [`chunks/s, ${ours} / ${peer}`, figures[`chunks/s, ${ours} @${most} / ${peer}`]!]),
  );
  return {
    conditions: {
      streams: `${counts.join(" and ")} at once, each a chunk and a pause of ${1000 / CHUNKS_PER_S} ms: ${counts.map((n) => n * CHUNKS_PER_S).join(" and ")} chunks/s where nothing is slow`,
      ours: "auth on; /stream and OpenAI keep what they stream until it is taken; 1 worker each",
      ...peers,
      load: `one Node process reads all, same machine; ${seconds} s each, ${rounds} rounds interleaved`,
    },
    figures,
    bars: Object.fromEntries(
      Object.entries(held)
        .filter(([name]) => name.includes("nginx"))
        .map(([name, value]) => [name, atLeast(value, 1)]),
    ),
  };
}
