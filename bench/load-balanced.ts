/**
 * A route of a load-balanced endpoint with authentication on, against FastAPI and a bare ASGI application on uvicorn, and
 * nginx in front of FastAPI, interleaved. The peers check no key.
 */
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { atLeast, type Bench, median } from "./bench.ts";
import { type CountedLoad, costFigures, countedLoad, load, requireWrk, type Target } from "./load.ts";
import { startNginx } from "./nginx.ts";
import { pythonEnvironment, startPlatform, startServer } from "./processes.ts";
import type { Parts } from "./processor-time.ts";

const CONNECTIONS = [1, 16, 64];
const SECONDS = 2;
const JSON_TYPE = { "content-type": "application/json" };
const BODIES = { json: "x".repeat(80), "10 KB": "x".repeat(10_240) };
const WORKER = `
from svc import Endpoint

api = Endpoint(name="sync", workers=(1, 1))
waiting = Endpoint(name="async", workers=(1, 1), max_concurrency=64)

@api.post("/echo")
def echo(text: str) -> dict:
    return {"text": text}

@waiting.post("/echo")
async def echo_async(text: str) -> dict:
    return {"text": text}
`;

export const bench: Bench = async ({ rounds }) => {
  const wrk = await requireWrk();
  const bin = await pythonEnvironment("fastapi", ["fastapi", "uvicorn[standard]", "python-multipart"]);
  const versions = (await runProcess(`${bin}/python`, ["-m", "pip", "freeze"])).stdout;
  const version = (name: string) => new RegExp(`^${name}==(.*)$`, "m").exec(versions)?.[1];
  const platform = await startPlatform();
  const uvicorn = (app: string) =>
    startServer(`${bin}/uvicorn`, (port) => [
      ...["--app-dir", "bench/peers", app, "--port", String(port), "--log-level", "warning", "--no-access-log"],
    ]);
  const fastapi = await uvicorn("fastapi_app:app");
  const asgi = await uvicorn("asgi_app:app");
  const nginx = await startNginx(fastapi.port);
  try {
    const urls = await platform.deploy({ "worker.py": WORKER });
    const key = { authorization: `Bearer ${platform.key}` };
    const ours = async (name: string): Promise<Parts> => ({
      platform: { pids: [platform.pid] },
      worker: { pids: await platform.workerPids(name) },
    });
    const uvicornOf = ({ pid }: { pid: number }): Parts => ({ uvicorn: { pids: [pid], tree: true } });
    const ways: Record<string, [url: string, headers: Record<string, string>, parts: Parts]> = {
      "ours, sync": [`${urls.sync}/echo`, key, await ours("sync")],
      "ours, async": [`${urls.async}/echo`, key, await ours("async")],
      fastapi: [`http://127.0.0.1:${fastapi.port}/echo-async`, {}, uvicornOf(fastapi)],
      "fastapi, sync": [`http://127.0.0.1:${fastapi.port}/echo`, {}, uvicornOf(fastapi)],
      "raw asgi": [`http://127.0.0.1:${asgi.port}/`, {}, uvicornOf(asgi)],
    };
    if ("port" in nginx) {
      const parts = { nginx: { pids: [nginx.pid], tree: true }, ...uvicornOf(fastapi) };
      ways["nginx + fastapi"] = [`http://127.0.0.1:${nginx.port}/echo-async`, {}, parts];
    }
    // Code that was never run is slow at first, ours and theirs.
    for (const [url, headers] of Object.values(ways)) {
      await load({ url, method: "POST", headers: { ...JSON_TYPE, ...headers }, body: '{"text":"warm"}' }, 16, SECONDS);
    }
    const seen = new Map<string, CountedLoad[]>();
    for (let round = 0; round < rounds; round++) {
      for (const connections of CONNECTIONS) {
        for (const [kind, text] of Object.entries(BODIES)) {
          for (const [way, [url, headers, parts]] of Object.entries(ways)) {
            const body = JSON.stringify({ text });
            const target: Target = {
              url,
              method: "POST",
              headers: { ...JSON_TYPE, ...headers },
              body,
            };
            getOrInsert(seen, `${way}, ${kind} @${connections}`, () => []).push(
              await countedLoad(target, parts, connections, SECONDS),
            );
          }
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
    const ratio = (ours: string, peer: string, at: string) => rate(`${ours}, ${at}`) / rate(`${peer}, ${at}`);
    for (const at of ["json @1", "json @16", "json @64", "10 KB @1", "10 KB @16", "10 KB @64"]) {
      figures[`ours/fastapi, ${at}`] = ratio("ours, sync", "fastapi", at);
      figures[`ours/raw asgi, ${at}`] = ratio("ours, sync", "raw asgi", at);
    }
    return {
      conditions: {
        route: "POST with one text field of 80 characters or 10 KB, sent back as JSON; 1 worker",
        ours: "auth on, Server-Timing on",
        peers: `fastapi ${version("fastapi")}, uvicorn ${version("uvicorn")} with uvloop ${version("uvloop")}: no auth; nginx: ${"missing" in nginx ? nginx.missing : "as a proxy with kept connections"}`,
        load: `${wrk}, 1 thread, ${SECONDS} s each, same machine, ${rounds} rounds interleaved`,
      },
      figures,
      bars: { "ours/fastapi, json @64": atLeast(ratio("ours, sync", "fastapi", "json @64"), 2.5) },
    };
  } finally {
    await Promise.all([platform.stop(), fastapi.stop(), asgi.stop(), "stop" in nginx && nginx.stop()]);
  }
};
