import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

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
