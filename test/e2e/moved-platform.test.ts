import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { hostPidIn } from "../host-pid.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";
import { imageOfProgram, PULL_PROGRAM } from "./pull-program.ts";

const docker = await dockerForTests();

const source = (file: string) => `
import os, time
from svc import Endpoint

@Endpoint(name="inner", workers=(1, 1))
def inner(n, seconds=0):
    if seconds:
        open(${JSON.stringify(file)}, "w").close()
        time.sleep(seconds)
    return n + 1

@Endpoint(name="outer", workers=(1, 1))
def outer(n, seconds=0):
    return {"n": inner(n, seconds), "pid": os.getpid()}
`;

test("Workers that outlive a platform call each other through the next one on another port, also in a call under way", async (t) => {
  const platform = await startPlatform(t);
  const begun = path.join(platform.shared, "begun");
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": source(begun) }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const { id } = (await platform.endpoints()).find(({ name }) => name === "outer")!;
  const call = async (on: TestPlatform, n: number) =>
    (await on.call(`${on.url}/v2/${id}/runsync?wait=30000`, { body: { input: { n } } })).json;
  const before = await call(platform, 1);
  assert.equal(before.output?.n, 2, JSON.stringify(before));
  const { pid } = before.output;
  const job = await platform.call(`${platform.url}/v2/${id}/run`, { body: { input: { n: 2, seconds: 2 } } });
  while (!existsSync(begun)) await new Promise((resolve) => setTimeout(resolve, 5));
  await platform.kill();

  const moved = await platform.restart("0");
  assert.notEqual(moved.url, platform.url);
  const { json } = await moved.call(`${moved.url}/v2/${id}/status-sync/${job.json.id}?wait=30000`);
  assert.deepEqual([json.status, json.output], ["COMPLETED", { n: 3, pid }], JSON.stringify(json));
  assert.deepEqual((await call(moved, 5)).output, { n: 6, pid });
});

const COMMAND = 'command=["python3", "worker.py"], protocol="pull"';
const program = (what: string) => `
from svc import Endpoint
Endpoint(name="program", ${what}, workers=(1, 1), volume="shared")
`;

/** A program asks where it was told to when it began. */
async function replacesPrograms(t: TestContext, env: Readonly<Record<string, string>>, what = COMMAND) {
  const platform = await startPlatform(t, env);
  const cwd = project(t, { "main.py": program(what), "worker.py": PULL_PROGRAM });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const { id } = (await platform.endpoints()).find(({ name }) => name === "program")!;
  const folder = "/volumes/shared";
  const kept = path.join(platform.dataDir, "volumes", "app", "production", "shared");
  const input = { wait: `${folder}/gate`, tell: `${folder}/pid` };
  const run = await platform.call(`/v2/${id}/run`, { body: { input } });
  const first = await hostPidIn(path.join(kept, "pid"));
  await platform.kill();

  const moved = await platform.restart("0");
  assert.notEqual(moved.url, platform.url);
  await eventually(() => assert.ok(!existsSync(`/proc/${first}`), "what asks elsewhere ends"));
  writeFileSync(path.join(kept, "gate"), "");
  const { json } = await moved.call(`/v2/${id}/status-sync/${run.json.id}?wait=60000`);
  assert.deepEqual([json.status, json.retries], ["COMPLETED", undefined], JSON.stringify(json));
  assert.notEqual(json.output.pid, undefined);
}

test("A program that pulls its jobs is replaced when the platform comes back on another port, and its job begins anew", (t) =>
  replacesPrograms(t, {}));

test("So is one in a container", { skip: docker.skip }, (t) => replacesPrograms(t, docker.env));

test("So is one that is its container's own", { skip: docker.skip }, async (t) =>
  replacesPrograms(t, docker.env, `image="${await imageOfProgram(t, docker)}"`),
);
