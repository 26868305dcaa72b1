import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { project, startPlatform } from "./platform.ts";

const WORKER = (file: string) => `
import time
from svc import Endpoint

@Endpoint(name="record", workers=(0, 2))
def record(n, seconds=0.02):
    with open(${JSON.stringify(file)}, "a") as out:
        out.write(f"{n}\\n")
    time.sleep(seconds)
    return {"n": n}
`;

test("100 accepted jobs survive a SIGKILL of the platform and each completes exactly once", async (t) => {
  const platform = await startPlatform(t);
  const effects = path.join(platform.shared, "effects.txt");
  const dir = project(t, { "worker.py": WORKER(effects) });
  const deploy = await platform.svc(["deploy"], { cwd: dir });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();

  const accepted = await Promise.all(
    Array.from({ length: 100 }, (_, n) => platform.call(`${endpoint!.url}/run`, { body: { input: { n } } })),
  );
  assert.ok(accepted.every((answer) => answer.status === 200 && answer.json.status === "IN_QUEUE"));
  await platform.kill();

  const again = await platform.restart();
  const url = `${again.url}/v2/${endpoint!.id}`;
  const jobs = await Promise.all(accepted.map(({ json }) => again.call(`${url}/status-sync/${json.id}?wait=60000`)));
  assert.deepEqual(
    jobs.map(({ json }) => [json.status, json.output?.n, json.retries]),
    Array.from({ length: 100 }, (_, n) => ["COMPLETED", n, undefined]),
  );
  const done = readFileSync(effects, "utf8").trim().split("\n").map(Number);
  assert.deepEqual(
    done.sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, n) => n),
  );
});

test("A running job outlives the platform: one execution, one result", async (t) => {
  const platform = await startPlatform(t);
  const effects = path.join(platform.shared, "effects.txt");
  const dir = project(t, { "worker.py": WORKER(effects) });
  assert.equal((await platform.svc(["deploy"], { cwd: dir })).code, 0);
  const [endpoint] = await platform.endpoints();
  const run = await platform.call(`${endpoint!.url}/run`, { body: { input: { n: 7, seconds: 3 } } });
  while (!existsSync(effects)) await new Promise((resolve) => setTimeout(resolve, 5));
  await platform.kill();

  const again = await platform.restart();
  const job = await again.call(`${again.url}/v2/${endpoint!.id}/status-sync/${run.json.id}?wait=30000`);
  assert.equal(job.json.status, "COMPLETED", job.text);
  assert.equal(job.json.retries, undefined);
  assert.equal(readFileSync(effects, "utf8"), "7\n");
});
