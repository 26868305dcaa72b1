/**
 * A route of a load-balanced endpoint with authentication on, against FastAPI and a bare ASGI application on uvicorn, and
 * nginx in front of FastAPI, interleaved. The peers check no key.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { atLeast, type Bench, median } from "./bench.ts";
import { type Load, load, requireWrk, type Target } from "./load.ts";
import { type Peer, pythonEnvironment, startPlatform, startServer } from "./processes.ts";

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
    const ways: Record<string, [url: string, headers: Record<string, string>]> = {
      "ours, sync": [`${urls.sync}/echo`, key],
      "ours, async": [`${urls.async}/echo`, key],
      fastapi: [`http://127.0.0.1:${fastapi.port}/echo-async`, {}],
      "fastapi, sync": [`http://127.0.0.1:${fastapi.port}/echo`, {}],
      "raw asgi": [`http://127.0.0.1:${asgi.port}/`, {}],
      ...(nginx && { "nginx + fastapi": [`http://127.0.0.1:${nginx.port}/echo-async`, {}] as const }),
    };
    // Code that was never run is slow at first, ours and theirs.
    for (const [url, headers] of Object.values(ways)) {
      await load({ url, method: "POST", headers: { ...JSON_TYPE, ...headers }, body: '{"text":"warm"}' }, 16, SECONDS);
    }
    const seen = new Map<string, Load[]>();
    for (let round = 0; round < rounds; round++) {
      for (const connections of CONNECTIONS) {
        for (const [kind, text] of Object.entries(BODIES)) {
          for (const [way, [url, headers]] of Object.entries(ways)) {
            const body = JSON.stringify({ text });
            const target: Target = {
              url,
              method: "POST",
              headers: { ...JSON_TYPE, ...headers },
              body,
            };
            getOrInsert(seen, `${way}, ${kind} @${connections}`, () => []).push(
              await load(target, connections, SECONDS),
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
        peers: `fastapi ${version("fastapi")}, uvicorn ${version("uvicorn")} with uvloop ${version("uvloop")}: no auth; nginx: ${nginx ? "as a proxy with kept connections" : "not installed, skipped"}`,
        load: `${wrk}, 1 thread, ${SECONDS} s each, same machine, ${rounds} rounds interleaved`,
      },
      figures,
      bars: { "ours/fastapi, json @64": atLeast(ratio("ours, sync", "fastapi", "json @64"), 2.5) },
    };
  } finally {
    await Promise.all([platform.stop(), fastapi.stop(), asgi.stop(), nginx?.stop()]);
  }
};

/** Undefined where nginx is not installed. */
async function startNginx(upstream: number): Promise<Peer | undefined> {
  if ((await runProcess("nginx", ["-v"]).catch(() => undefined))?.code !== 0) return undefined;
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const peer = await startServer("nginx", (port) => {
    const conf = `daemon off; worker_processes 1; pid ${dir}/pid; error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path ${dir}; proxy_temp_path ${dir}; keepalive_requests 10000000;
  upstream app { server 127.0.0.1:${upstream}; keepalive 64; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}`;
    writeFileSync(path.join(dir, "nginx.conf"), conf);
    return ["-c", path.join(dir, "nginx.conf")];
  });
  return {
    ...peer,
    stop: async () => {
      await peer.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
