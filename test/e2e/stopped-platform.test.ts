/** A platform that stands still for longer than a lease, as by Ctrl+Z or in a paused machine, while its workers go on. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { LEASE_MS } from "../../src/domain/limits.ts";
import { project, startPlatform } from "./platform.ts";

const STOPPED_MS = LEASE_MS + 5_000;

test("a platform that was stopped for 20 s loses no running job and runs none twice", async (t) => {
  const platform = await startPlatform(t);
  const runs = path.join(platform.shared, "runs.txt");
  const worker = `
import time
from svc import Endpoint

@Endpoint(name="long", workers=(0, 2), max_concurrency=1)
def long(name, seconds):
    with open(${JSON.stringify(runs)}, "a") as out:
        out.write(name + "\\n")
    time.sleep(seconds)
    return name
`;
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const started = () => (existsSync(runs) ? readFileSync(runs, "utf8").trim().split("\n").sort() : []);
  const submit = async (input: object, policy = {}) =>
    (await platform.call(`${endpoint!.url}/run`, { body: { input, policy } })).json.id as string;
  // One outlasts the stop. The other ends in it, past its time as the platform counts, with its result on the way.
  const jobs = [
    await submit({ name: "ends after", seconds: STOPPED_MS / 1000 + 2 }),
    await submit({ name: "ends meanwhile", seconds: 3 }, { executionTimeout: 10_000 }),
  ];
  while (started().length < 2) await delay(20);
  process.kill(platform.pid, "SIGSTOP");
  try {
    await delay(STOPPED_MS);
  } finally {
    process.kill(platform.pid, "SIGCONT");
  }
  const answers = await Promise.all(
    jobs.map(async (id) => (await platform.call(`${endpoint!.url}/status-sync/${id}?wait=60000`)).json),
  );
  assert.deepEqual(
    answers.map(({ status, output, retries }) => [status, output, retries]),
    [
      ["COMPLETED", "ends after", undefined],
      ["COMPLETED", "ends meanwhile", undefined],
    ],
  );
  assert.deepEqual(started(), ["ends after", "ends meanwhile"]);
});

test("a platform that a test left standing still is ended all the same", async (t) => {
  const platform = await startPlatform(t);
  process.kill(platform.pid, "SIGSTOP");
  await platform.stop();
  assert.throws(() => process.kill(platform.pid, 0), { code: "ESRCH" });
});
