/** What a real platform records of itself: series, metrics as a real Prometheus reads them, events and health. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { SERIES_STEP_MS } from "../../src/domain/limits.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { findPrometheus } from "../prometheus.ts";
import { project, ROOT, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const CODE = `
from svc import Endpoint, WebSocket

@Endpoint(name="add", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def add(a: int, b: int) -> int:
    if b < 0:
        raise ValueError("negative")
    return a + b

api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(0, 1), public=True)

@api.websocket("/echo")
async def echo(socket: WebSocket):
    async for message in socket:
        await socket.send(message)

@api.get("/items/{item}")
def item(item: str) -> dict:
    return {"item": item}
`;

interface Point {
  readonly at: number;
  readonly value: number | null;
}

async function sum(platform: TestPlatform, metric: string, endpoint: string | null, from: number): Promise<number> {
  const document = `query($endpoint: String, $metric: String!, $from: Float!, $to: Float!) {
    series(endpoint: $endpoint, metric: $metric, from: $from, to: $to, step: ${SERIES_STEP_MS}) { points { at value } }
  }`;
  const variables = { endpoint, metric, from, to: Date.now() + SERIES_STEP_MS };
  const { series } = await platform.query<{ series: { points: Point[] } }>(document, variables);
  return series.points.reduce((all, { value }) => all + (value ?? 0), 0);
}

/** The first block of the page on metrics that has `part` in it. */
function example(part: string): string {
  const page = readFileSync(path.join(ROOT, "docs/reference/metrics.md"), "utf8");
  const blocks = Array.from(page.matchAll(/^```\w+\n([\s\S]*?)^```/gm), ([, block]) => block!);
  const block = blocks.find((each) => each.includes(part));
  assert.ok(block, part);
  return block;
}

/** A Prometheus that scrapes the platform every second; its own address. */
async function prometheus(t: TestContext, program: string, platform: TestPlatform): Promise<string> {
  const dir = tempDir(t);
  const file = path.join(dir, "prometheus.yml");
  const { host } = new URL(platform.url);
  const configuration = example("scrape_configs").replace("<key>", platform.key).replace("127.0.0.1:7878", host);
  writeFileSync(file, `global: {scrape_interval: 1s}\n${configuration}`);
  const data = path.join(dir, "data");
  const args = [`--config.file=${file}`, `--storage.tsdb.path=${data}`, "--web.listen-address=127.0.0.1:0"];
  const child: ChildProcess = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
  t.after(async () => {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  });
  let said = "";
  child.stderr!.on("data", (chunk) => {
    said += chunk;
  });
  return eventually(() => {
    const [, address] = /msg="Listening on" address=(\S+)/.exec(said) ?? [];
    assert.ok(address, said);
    return `http://${address}`;
  });
}

async function ask(
  server: string,
  expression: string,
): Promise<{ metric: Record<string, string>; value: [number, string] }[]> {
  const response = await fetch(`${server}/api/v1/query`, {
    method: "POST",
    body: new URLSearchParams({ query: expression }),
  });
  const answer = (await response.json()) as { status: string; error?: string; data: { result: never[] } };
  assert.equal(answer.status, "success", `${expression}: ${answer.error}`);
  return answer.data.result;
}

/** The dashboard's queries, with what Grafana puts in place of its variables. */
function dashboardQueries(): string[] {
  const { panels } = JSON.parse(readFileSync(path.join(ROOT, "deploy/grafana/svc.json"), "utf8")) as {
    panels: { targets: { expr: string }[] }[];
  };
  return panels.flatMap(({ targets }) =>
    targets.map(({ expr }) =>
      expr.replaceAll("$__rate_interval", "1m").replaceAll(/"\$(app|environment|endpoint)"/g, '".*"'),
    ),
  );
}

test("What happens becomes series that survive a kill, metrics that Prometheus and the dashboard read, and events", {
  timeout: 240_000,
}, async (t) => {
  const platform = await startPlatform(t, { SVC_PUBLIC_RATE_LIMIT: "0" });
  const began = Date.now();
  const cwd = project(t, { "worker.py": CODE });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const all = await platform.endpoints();
  const [add, api] = ["add", "api"].map((name) => all.find((one) => one.name === name)!);

  const stream = await fetch(`${platform.url}/events?topics=series,jobs`, {
    headers: { authorization: `Bearer ${platform.key}` },
  });
  assert.equal(stream.headers.get("content-type"), "text/event-stream");
  let events = "";
  const reading = (async () => {
    for await (const chunk of stream.body!) events += Buffer.from(chunk).toString();
  })().catch(() => {});

  for (let i = 0; i < 5; i++) {
    const answer = await platform.call(`${add!.url}/runsync`, { body: { input: { a: 1, b: i === 0 ? -1 : i } } });
    assert.equal(answer.json.status, i === 0 ? "FAILED" : "COMPLETED", answer.text);
  }
  // A stranger without a key, on an open route and on many that are none.
  for (let i = 0; i < 60; i++) {
    await Promise.all(
      Array.from({ length: 5 }, (_, n) => platform.call(`${api!.url}/nothing-${i}-${n}`, { key: null })),
    );
  }
  assert.equal((await platform.call(`${api!.url}/items/7`, { key: null })).status, 200);

  // Who follows and closes its sending side, as a browser does that leaves, is let go at once.
  for (const route of ["/events", "/logs?follow=1"]) {
    const caller = connect({ port: Number(new URL(platform.url).port), host: "127.0.0.1", allowHalfOpen: true });
    caller.end(`GET ${route} HTTP/1.1\r\nHost: svc\r\nAuthorization: Bearer ${platform.key}\r\n\r\n`);
    assert.match(await text(caller), /^HTTP\/1\.1 200 [\s\S]*\r\n0\r\n\r\n$/);
  }

  const socket = new WebSocket(`${api!.url.replace("http", "ws")}/echo`);
  await once(socket, "open");
  socket.close();
  await once(socket, "close");

  const env = { PATH: process.env.PATH, PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key };
  assert.equal((await runProcess("sh", ["-c", example("curl")], { env })).code, 0);

  const healthy = await platform.call("/readyz", { key: null });
  assert.deepEqual([healthy.status, healthy.json], [200, { status: "ok" }]);
  assert.equal((await platform.call("/healthz", { key: null })).status, 200);
  assert.equal((await platform.call("/metrics", { key: null })).status, 401);

  await eventually(async () => assert.equal(await sum(platform, "done", add!.id, began), 4));
  await eventually(async () => assert.equal(await sum(platform, "requests@GET /items/{item}", api!.id, began), 1));
  await eventually(async () => assert.equal(await sum(platform, "requests@WEBSOCKET /echo", api!.id, began), 1));
  assert.equal(await sum(platform, "failed", add!.id, began), 1);
  assert.equal(await sum(platform, "failed", null, began), 1);
  assert.ok((await sum(platform, "coldStarts", add!.id, began)) >= 1);
  assert.ok((await sum(platform, "machine.vcpuPromised", null, began)) > 0);
  const { seriesNames } = await platform.query<{ seriesNames: string[] }>(`{ seriesNames(endpoint: "${api!.id}") }`);
  const routes = new Set(seriesNames.flatMap((name) => (name.includes("@") ? [name.split("@")[1]] : [])));
  assert.deepEqual(
    [...routes].sort(),
    ["GET /items/{item}", "WEBSOCKET /echo", "other"],
    "300 paths of a stranger are one",
  );
  assert.match(events, /event: jobs\ndata: \{"endpointId":"[^"]+","id":"sync-[^"]+","state":"FAILED"/);
  await eventually(() => assert.match(events, new RegExp(`event: series\ndata: .*"${add!.id}":\\{.*"done":`)));

  const { pods } = (
    await platform.query<{ endpoint: { pods: Record<string, unknown>[] } }>(
      `{ endpoint(id: "${add!.id}") { pods { startedAt readyAt jobsDone bootParts { waitMs bootMs importMs } } } }`,
    )
  ).endpoint;
  const worker = pods.find(({ jobsDone }) => jobsDone === 5) as {
    startedAt: number;
    readyAt: number;
    bootParts: Record<string, number>;
  };
  assert.ok(worker !== undefined, JSON.stringify(pods));
  const parts = Object.values(worker.bootParts).reduce((total, ms) => total + ms, 0);
  assert.ok(
    worker.startedAt >= began && Math.abs(parts - (worker.readyAt - worker.startedAt)) < 1_000,
    JSON.stringify(worker),
  );

  const found = await findPrometheus();
  if ("missing" in found) t.diagnostic(`skipped: the dashboard's queries against Prometheus: ${found.missing}`);
  else {
    const server = await prometheus(t, found.program, platform);
    const done = `sum(svc_jobs_total{endpoint="add",app="app",environment="production",outcome="done"})`;
    await eventually(async () => assert.equal((await ask(server, done))[0]?.value[1], "4"));
    const [p95] = await ask(
      server,
      'histogram_quantile(0.95, sum by (le) (svc_job_run_seconds_bucket{endpoint="add"}))',
    );
    assert.ok(Number(p95!.value[1]) < 60, JSON.stringify(p95));
    for (const query of dashboardQueries()) {
      // rate() takes two scrapes.
      await eventually(async () => assert.ok((await ask(server, query)).length > 0, query));
    }
  }

  await platform.kill();
  await reading;
  const again = await platform.restart();
  assert.equal(await sum(again, "done", add!.id, began), 4, "after a kill");
  const followed = await fetch(`${again.url}/events`, { headers: { authorization: `Bearer ${again.key}` } });
  await again.stop();
  // A follower does not hold up the end, and is told that it is over.
  assert.ok((await followed.text()).length >= 0);
});
