import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { project, startPlatform } from "./platform.ts";

const worker = (effects: string) => `
import os, time
from svc import Endpoint

OUT = os.open(${JSON.stringify(effects)}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

@Endpoint(name="mixed", workers=(2, 2))
def mixed(n, seconds=0, go=""):
    os.write(OUT, f"{n}\\n".encode())
    time.sleep(seconds)
    while go and not os.path.exists(go):
        time.sleep(0.05)
    return n
`;

test("short jobs that were handed out behind a long one do not wait for it, and run once", async (t) => {
  const platform = await startPlatform(t);
  const effects = path.join(platform.shared, "effects.txt");
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker(effects) }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const go = path.join(platform.shared, "go");
  const [endpoint] = await platform.endpoints();
  const { url } = endpoint!;
  const submit = async (input: object) => (await platform.call(`${url}/run`, { body: { input } })).json.id as string;
  const result = async (id: string) => (await platform.call(`${url}/status-sync/${id}?wait=60000`)).json;

  // Many short ones: from now on jobs are handed out ahead.
  const first = await Promise.all(Array.from({ length: 200 }, (_, n) => submit({ n })));
  await Promise.all(first.map(result));
  const long = await submit({ n: -1, go });
  const behind = await Promise.all(Array.from({ length: 200 }, (_, n) => submit({ n: 200 + n, seconds: 0.002 })));
  const results = await Promise.all(behind.map(result));
  assert.ok(results.every((job) => job.status === "COMPLETED" && job.retries === undefined));
  assert.equal((await platform.call(`${url}/status/${long}`)).json.status, "IN_PROGRESS", "the long one still runs");
  writeFileSync(go, "");
  assert.equal((await result(long)).status, "COMPLETED");

  const runs = readFileSync(effects, "utf8").trim().split("\n").map(Number);
  assert.deepEqual(
    runs.sort((a, b) => a - b),
    Array.from({ length: 401 }, (_, n) => n - 1),
  );
});
