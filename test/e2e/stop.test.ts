import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { STOP_GRACE_MS } from "../../src/domain/limits.ts";
import { LauncherProcess } from "../../src/drivers/launcher-process.ts";
import { eventually } from "../eventually.ts";
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

test("A stop of a platform that was killed ends its workers and frees its port, and the next start runs their jobs anew", async (t) => {
  const platform = await startPlatform(t);
  const begun = path.join(platform.shared, "begun");
  const worker = `
import os, time
from svc import Endpoint

@Endpoint(name="long", workers=(0, 1))
def long():
    if os.path.exists(${JSON.stringify(begun)}):
        return "anew"
    open(${JSON.stringify(begun)}, "w").close()
    time.sleep(600)
`;
  assert.equal((await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) })).code, 0);
  const [endpoint] = await platform.endpoints();
  const { json } = await platform.call(`${endpoint!.url}/run`, { body: { input: {} } });
  await eventually(() => assert.ok(existsSync(begun)));
  const launcher = LauncherProcess.earlier(platform.dataDir);
  assert.ok(launcher?.isAlive);
  await platform.kill();
  const stop = () => platform.svc(["platform", "stop", "--data-dir", platform.dataDir]);
  const status = await platform.svc(["platform", "status", "--data-dir", platform.dataDir]);
  assert.match(status.stderr, /its workers live on/);
  assert.match((await stop()).stdout, /No platform runs.*\nIts workers had lived on/);
  assert.equal(launcher.isAlive, false);
  const port = Number(new URL(platform.url).port);
  const other = createServer();
  await new Promise((resolve, reject) => other.once("error", reject).listen(port, "127.0.0.1", () => resolve(other)));
  await new Promise((resolve) => other.close(resolve));
  assert.equal((await stop()).stdout, "No platform runs on this machine.\n");
  await platform.restart();
  const job = await platform.call(`${endpoint!.url}/status-sync/${json.id}?wait=90000`);
  assert.equal(job.json.output, "anew", job.text);
});
