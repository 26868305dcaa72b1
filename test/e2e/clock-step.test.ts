/** A real platform whose clock is set while it works, by an hour and back: only it is set, its callers' and workers' clocks are not (those of workers: python/tests/test_peers.py). */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { project, startPlatform, tempDir } from "./platform.ts";
import { settableClock, whyNoClock } from "./settable-clock.ts";

const HOUR_S = 3_600;
const skip = await whyNoClock();

test("a clock that is set by an hour, forwards or back, costs no job and no call", {
  skip,
  timeout: 300_000,
}, async (t) => {
  const { env, set } = await settableClock(tempDir(t));
  const platform = await startPlatform(t, env);
  const at = (name: string) => path.join(platform.shared, name);
  const code = `
import os, time
from svc import Endpoint

@Endpoint(name="long", workers=(0, 1))
def long(n):
    with open(${JSON.stringify(at("runs"))}, "a") as out:
        out.write(f"{n}\\n")
    while not os.path.exists(${JSON.stringify(at("go"))}):
        time.sleep(0.05)
    return n

@Endpoint(name="quick", workers=(0, 1), idle_timeout=1)
def quick(n):
    time.sleep(1)
    return n

web = Endpoint(name="web", workers=(0, 1))

@web.get("/")
def root():
    return "here"
`;
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": code }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const endpoints = await platform.endpoints();
  const url = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!.url;
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    ids.push((await platform.call(`${url("long")}/run`, { body: { input: { n } } })).json.id);
  }
  const runs = () => readFileSync(at("runs"), "utf8").trim().split("\n").map(Number);
  await eventually(() => assert.deepEqual(runs(), [0]));

  for (const seconds of [HOUR_S, -HOUR_S, 0]) {
    set(seconds);
    // Longer than leases are looked at; each is a worker that must be started or was idle.
    for (let n = 0; n < 3; n++) {
      const { json } = await platform.call(`${url("quick")}/runsync`, { body: { input: { n } } });
      assert.deepEqual([json.status, json.output], ["COMPLETED", n], `${seconds}: ${JSON.stringify(json)}`);
    }
    const answer = await platform.call(url("web"));
    assert.deepEqual([answer.status, answer.json], [200, "here"], `${seconds}`);
    const isOffMs = Date.parse(answer.headers.get("date")!) - Date.now();
    assert.ok(Math.abs(isOffMs - seconds * 1000) < 600_000, `its clock is off by ${isOffMs} ms`);
    const health = await platform.call(`${url("long")}/health`);
    assert.deepEqual([health.json.jobs.inProgress, health.json.jobs.inQueue], [1, 2], `${seconds}`);
  }
  writeFileSync(at("go"), "");
  for (const [n, id] of ids.entries()) {
    const { json } = await platform.call(`${url("long")}/status-sync/${id}?wait=60000`);
    assert.deepEqual([json.status, json.output, json.retries], ["COMPLETED", n, undefined]);
  }
  assert.deepEqual(runs(), [0, 1, 2]);
});
