/** A real platform whose disk, a small tmpfs, is full for a while. Only root may mount one. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { hostPid, OWN_PID } from "../host-pid.ts";
import { embeddedOnly } from "../servers.ts";
import { smallDisk, whyNoSmallDisk } from "../small-disk.ts";
import { project, svc } from "./platform.ts";
import { startPlatformProcess } from "./platform-process.ts";

const skip = embeddedOnly("what jobs need is on no disk of the platform") || whyNoSmallDisk;
const PATIENCE_MS = 60_000;

const PROJECT = (gate: number) => ({
  "worker.py": `
import urllib.request
from svc import Endpoint

@Endpoint(name="echo", workers=(1, 1))
def echo(n):
    return n

@Endpoint(name="slow", workers=(1, 1))
def slow(size):
    urllib.request.urlopen("http://127.0.0.1:${gate}").read()
    return "x" * size
`,
});

async function until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await delay(50);
  }
}

test("a full disk refuses what is new, costs no job, and heals by itself", { skip, timeout: 300_000 }, async (t) => {
  const { dir, disk, fill, makeRoom, before } = smallDisk(t, 64);
  // The slow job asks here whether it may go on.
  const asked = Promise.withResolvers<ServerResponse>();
  const gate = createServer((_req, res) => asked.resolve(res)).listen(0, "127.0.0.1");
  t.after(() => gate.close().closeAllConnections());
  await once(gate, "listening");
  const log: string[] = [];
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_CONFIG_DIR: path.join(dir, "config") };
  const platform = await startPlatformProcess({ dataDir: disk, env, onLogLine: (line) => log.push(line) });
  before(() => platform.end("SIGQUIT"));
  const key = platform.firstKey!;
  const cli = (args: string[], cwd?: string) =>
    svc(args, { cwd, env: { ...(env as Record<string, string>), PLATFORM_URL: platform.url, PLATFORM_API_KEY: key } });
  const deploy = await cli(["deploy"], project(t, PROJECT((gate.address() as AddressInfo).port)));
  assert.equal(deploy.code, 0, deploy.stderr);
  const ask = async (route: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(platform.url + route, {
      headers,
      method: body === undefined ? "GET" : "POST",
      body: JSON.stringify(body),
    });
    // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
    return { status: response.status, json: (await response.json()) as any };
  };
  const { json } = await ask("/graphql", { query: "{ myself { endpoints { id name } } }" });
  const endpoints = json.data.myself.endpoints as { id: string; name: string }[];
  const url = (name: string) => `/v2/${endpoints.find((one) => one.name === name)!.id}`;
  const state = async (name: string, id: string) => (await ask(`${url(name)}/status/${id}`)).json.status;
  const completed = (name: string, id: string) =>
    until(`${name} ${id} completes`, async () => {
      const { json: job } = await ask(`${url(name)}/status/${id}`);
      assert.ok(["IN_QUEUE", "IN_PROGRESS", "COMPLETED"].includes(job.status), JSON.stringify(job));
      return job.status === "COMPLETED" && job;
    });

  const { id: slow } = (await ask(`${url("slow")}/run`, { input: { size: 300_000 } })).json;
  const goOn = await asked.promise;
  fill();
  const accepted: string[] = [];
  const input = { n: "x".repeat(50_000) };
  let refusals = 0;
  await until("writes are refused", async () => {
    const answer = await ask(`${url("echo")}/run`, { input });
    if (answer.status === 200) accepted.push(answer.json.id);
    else {
      assert.deepEqual([answer.status, answer.json.code], [507, "STORAGE_FULL"]);
      refusals++;
    }
    fill();
    return refusals >= 20;
  });
  const refused = await ask("/graphql", {
    query: `mutation { createEnvironment(app: "other", name: "x") { name } }`,
  });
  if (refused.json.errors !== undefined) assert.equal(refused.json.errors[0].extensions.code, "STORAGE_FULL");
  assert.equal(await state("slow", slow), "IN_PROGRESS", "reads go on");
  assert.match((await cli(["status"])).stderr, /warning: The platform's disk is full/);

  goOn.end();
  for (let n = 0; n < 20; n++) {
    assert.equal((await ask(`${url("echo")}/run`, { input })).status, 507);
    await delay(100);
  }
  assert.equal(await state("slow", slow), "IN_PROGRESS", "its result waits");
  makeRoom();
  assert.equal((await completed("slow", slow)).output.length, 300_000);
  for (const id of accepted) assert.equal((await completed("echo", id)).output, input.n);
  const after = await until("new jobs are taken", async () => {
    const answer = await ask(`${url("echo")}/runsync`, { input: { n: 1 } });
    return answer.status === 200 && answer.json;
  });
  assert.equal(after.output, 1);
  assert.equal(log.filter((line) => line.includes("The platform's disk is full")).length, 1, log.join("\n"));
  assert.equal(log.filter((line) => line.includes("storing works again")).length, 1);
  assert.equal((await cli(["status"])).stderr.includes("warning"), false);
});

test("a worker that ended while the disk was full is replaced as soon as there is room", { skip }, async (t) => {
  const { dir, disk, fill, makeRoom, before } = smallDisk(t, 64);
  const preload = pathToFileURL(path.join(import.meta.dirname, "no-rounds.ts")).href;
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_CONFIG_DIR: path.join(dir, "config") };
  const platform = await startPlatformProcess({
    dataDir: disk,
    env: { ...env, NODE_OPTIONS: `--import ${preload}` },
  });
  before(() => platform.end("SIGQUIT"));
  const key = platform.firstKey!;
  const code = `import os
from svc import Endpoint

@Endpoint(name="mortal", workers=(0, 1))
def mortal(text=""):
    return ${OWN_PID}
`;
  const deploy = await svc(["deploy"], {
    cwd: project(t, { "worker.py": code }),
    env: { ...(env as Record<string, string>), PLATFORM_URL: platform.url, PLATFORM_API_KEY: key },
  });
  assert.equal(deploy.code, 0, deploy.stderr);
  const ask = async (route: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const method = body === undefined ? "GET" : "POST";
    const response = await fetch(platform.url + route, { headers, method, body: JSON.stringify(body) });
    // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
    return { status: response.status, json: (await response.json()) as any };
  };
  const { json } = await ask("/graphql", { query: "{ myself { endpoints { id } } }" });
  const url = `/v2/${json.data.myself.endpoints[0].id}`;
  const call = (text: string) => ask(`${url}/runsync?wait=60000`, { input: { text } });
  const worker = (await call("")).json.output as string;
  await until("writes are refused", async () => {
    fill();
    return (await call("x".repeat(50_000))).status === 507;
  });
  process.kill(hostPid(worker)!, "SIGKILL");
  await until("its end is noticed", async () => (await ask(`${url}/health`)).json.workers.ready === 0);
  makeRoom();
  const after = await until("calls are taken", async () => {
    const answer = await call("");
    return answer.status === 200 && answer.json;
  });
  assert.equal(after.status, "COMPLETED");
  assert.notEqual(after.output, worker);
});

test("a platform that cannot start for want of room says so in words", { skip }, async (t) => {
  const { dir, disk, fill } = smallDisk(t, 2);
  fill();
  const env = { SVC_CONFIG_DIR: path.join(dir, "config"), SVC_DATA_DIR: disk };
  const { code, stderr } = await svc(["platform", "start", "--port", "0"], { env });
  assert.notEqual(code, 0);
  assert.match(stderr, /disk is full/);
  assert.match(stderr, /Make room/);
});
