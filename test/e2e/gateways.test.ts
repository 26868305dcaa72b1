/** A platform whose calls are taken by processes of their own: what becomes of callers when one of these, or their owner, fails. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { isRunning } from "../../src/lib/start-time.ts";
import { eventually } from "../eventually.ts";
import { embeddedOnly } from "../servers.ts";
import { project, startPlatform, svc, type TestPlatform } from "./platform.ts";

const WORKER = `
import os
import time
from svc import Endpoint

@Endpoint(name="double", workers=(1, 1), max_concurrency=8)
def double(x, go=""):
    while go and not os.path.exists(go):
        time.sleep(0.02)
    return 2 * x

api = Endpoint(name="web", workers=(1, 1), max_concurrency=8)

@api.get("/hello")
async def hello() -> dict:
    return {"hello": "you"}
`;

const COUNT = 2;

async function started(t: TestContext): Promise<{ platform: TestPlatform; double: string; web: string }> {
  const platform = await startPlatform(t, { SVC_GATEWAYS: String(COUNT) });
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const endpoints = await platform.endpoints();
  const urlOf = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!.url;
  return { platform, double: urlOf("double"), web: urlOf("web") };
}

function gatewayPids({ dataDir }: TestPlatform): number[] {
  return JSON.parse(readFileSync(path.join(dataDir, "platform.json"), "utf8")).gateways.pids;
}

/** On a connection of its own: the kernel gives it to any gateway. */
const alone = { connection: "close" };

test("each gateway takes calls of every kind, and status says which processes they are", async (t) => {
  const { platform, double, web } = await started(t);
  for (let i = 0; i < 8; i++) {
    const job = await platform.call(`${double}/runsync`, { body: { input: { x: i } }, headers: alone });
    assert.deepEqual([job.status, job.json.output], [200, 2 * i]);
    const hello = await platform.call(`${web}/hello`, { headers: alone });
    assert.deepEqual([hello.status, hello.json], [200, { hello: "you" }]);
    assert.equal((await platform.call("/readyz", { headers: alone })).status, 200);
    assert.equal((await platform.call(`${double}/health`, { headers: alone })).json.workers.ready, 1);
  }
  const status = await svc(["platform", "status", "--data-dir", platform.dataDir]);
  assert.match(status.stdout, /^Gateways 2 \(processes \d+, \d+\)$/m);
  const told = JSON.parse((await svc(["platform", "status", "--json", "--data-dir", platform.dataDir])).stdout);
  assert.deepEqual(told.gateways, { wanted: COUNT, pids: gatewayPids(platform) });
});

test("a revoked key is refused by every gateway once the revoking call has returned", async (t) => {
  const { platform, double } = await started(t);
  const made = await platform.query<{ createKey: { key: { id: string }; secret: string } }>(
    'mutation { createKey(input: { name: "short", scopes: ["invoke"] }) { key { id } secret } }',
  );
  const {
    key: { id },
    secret: key,
  } = made.createKey;
  const calls = () =>
    Promise.all(
      Array.from({ length: 16 }, async () => {
        const answer = await platform.call(`${double}/runsync`, { body: { input: { x: 1 } }, key, headers: alone });
        return answer.status;
      }),
    );
  assert.deepEqual(new Set(await calls()), new Set([200]), "every gateway knows it now");
  await platform.query("mutation ($id: String!) { revokeKey(id: $id) }", { id });
  assert.deepEqual(new Set(await calls()), new Set([401]));
});

test("a killed gateway takes its own connections along and nothing else, and another takes its place", async (t) => {
  const { platform, double } = await started(t);
  const [killed = 0] = gatewayPids(platform);
  let [answered, cut, goesOn] = [0, 0, true];
  const caller = async (n: number) => {
    for (let i = 0; goesOn; i++) {
      const x = n * 1000 + i;
      const answer = await platform.call(`${double}/runsync`, { body: { input: { x } } }).catch(() => undefined);
      if (answer === undefined) cut++;
      else {
        assert.deepEqual([answer.status, answer.json.output], [200, 2 * x], answer.text);
        answered++;
      }
    }
  };
  const callers = Array.from({ length: 6 }, (_, n) => caller(n));
  await eventually(() => assert.ok(answered > 30));
  process.kill(killed, "SIGKILL");
  await eventually(() => {
    const pids = gatewayPids(platform);
    assert.equal(pids.length, COUNT);
    assert.ok(!pids.includes(killed));
  });
  const before = answered;
  await eventually(() => assert.ok(answered > before + 30));
  goesOn = false;
  await Promise.all(callers);
  assert.ok(cut <= 12, `${cut} calls were cut`);
});

test("a gateway that stands still is counted out: a key is revoked all the same, and calls go on", async (t) => {
  const { platform, double } = await started(t);
  const key = 'mutation { createKey(input: { name: "short", scopes: ["invoke"] }) { key { id } secret } }';
  const { createKey: made } = await platform.query<{ createKey: { key: { id: string }; secret: string } }>(key);
  const [still = 0] = gatewayPids(platform);
  process.kill(still, "SIGSTOP");
  t.after(() => isRunning(still) && process.kill(still, "SIGKILL"));
  // A connection that the kernel gives to the one that stands still is cut when that is counted out: the caller asks again.
  const statusOf = (secret: string) =>
    eventually(async () => {
      const body = { input: { x: 1 } };
      return (await platform.call(`${double}/runsync`, { body, key: secret, headers: alone })).status;
    });
  await eventually(() => platform.query("mutation ($id: String!) { revokeKey(id: $id) }", { id: made.key.id }));
  assert.equal(await statusOf(made.secret), 401);
  await eventually(() => {
    assert.ok(!isRunning(still));
    assert.equal(gatewayPids(platform).length, COUNT);
  });
  for (let i = 0; i < 8; i++) assert.equal(await statusOf(platform.key), 200);
});

test("gateways end with an owner that is killed, also one that stands still, and the next start has the port", async (t) => {
  const { platform, double } = await started(t);
  const [still = 0, other = 0] = gatewayPids(platform);
  process.kill(still, "SIGSTOP");
  t.after(() => isRunning(still) && process.kill(still, "SIGKILL"));
  await platform.kill();
  await eventually(() => assert.ok(!isRunning(other)));
  const again = await platform.restart();
  await eventually(() => assert.ok(!isRunning(still)));
  const answer = await again.call(`${double}/runsync`, { body: { input: { x: 4 } } });
  assert.equal(answer.json.output, 8);
  await again.stop();
});

test("a platform that stops answers what runs, and leaves no gateway", async (t) => {
  const { platform, double } = await started(t);
  const pids = gatewayPids(platform);
  const go = path.join(platform.shared, "go");
  const runs = platform.call(`${double}/runsync`, { body: { input: { x: 5, go } } });
  await eventually(async () => {
    assert.equal((await platform.call(`${double}/health`)).json.jobs.inProgress, 1);
  });
  const stopped = svc(["platform", "stop", "--data-dir", platform.dataDir]);
  // New calls are refused, on connections that are there or not at all.
  await eventually(async () => {
    const answer = await platform.call(`${double}/health`, { headers: alone }).catch(() => undefined);
    assert.notEqual(answer?.status, 200);
  });
  const { writeFileSync } = await import("node:fs");
  writeFileSync(go, "");
  assert.equal((await runs).json.output, 10);
  assert.equal((await stopped).code, 0);
  assert.deepEqual(
    pids.filter((pid) => isRunning(pid)),
    [],
  );
});

test("a port that is in use is said before any gateway starts, also by a platform that would share it", {
  skip: embeddedOnly("one data directory is enough"),
}, async (t) => {
  const { platform } = await started(t);
  const port = new URL(platform.url).port;
  const options = ["--data-dir", path.join(platform.dir, "second"), "--port", port, "--gateways", "2"];
  const second = await svc(["platform", "start", "--foreground", ...options]);
  assert.notEqual(second.code, 0);
  assert.match(second.stderr, new RegExp(`Port ${port} on 127.0.0.1 is in use`));
});
