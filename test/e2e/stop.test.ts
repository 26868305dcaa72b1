import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { STOP_GRACE_MS } from "../../src/domain/limits.ts";
import { project, startPlatform } from "./platform.ts";

test("A stop that waits for running jobs is cut short by a stop at once, and nothing is left running", async (t) => {
  const platform = await startPlatform(t);
  const begun = path.join(platform.shared, "begun");
  const worker = `
import time
from svc import Endpoint

@Endpoint(name="long", workers=(0, 1))
def long():
    open(${JSON.stringify(begun)}, "w").close()
    time.sleep(600)
`;
  assert.equal((await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) })).code, 0);
  const [endpoint] = await platform.endpoints();
  const waiting = platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } }).catch(() => undefined);
  while (!existsSync(begun)) await delay(5);

  const started = performance.now();
  process.kill(platform.pid, "SIGTERM");
  await assert.rejects(async () => {
    for (;;) await platform.call("/health-of-nothing", { key: null });
  }); // It listens no more: the drain is under way.
  await platform.stop();
  await waiting;
  assert.ok(performance.now() - started < STOP_GRACE_MS / 2, "it did not wait for the job");
  assert.equal(existsSync(path.join(platform.dataDir, "platform.json")), false);
});
