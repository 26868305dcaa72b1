/** What docs/reference/job-api.md says of a function's side of a job, on a real platform. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { project, startPlatform } from "./platform.ts";

const WORKER = `
import os
import time
from svc import Endpoint, progress

@Endpoint(name="jobs", workers=(0, 1))
def jobs(what, seconds=0, go=""):
    if what == "returned error":
        return {"error": "no such customer"}
    if what == "raised":
        raise LookupError("nobody")
    if what == "progress":
        progress({"percent": 50})
    if what == "now":
        return time.time()
    time.sleep(seconds)
    while go and not os.path.exists(go):
        time.sleep(0.02)
    return what

@Endpoint(name="tokens", workers=(0, 1))
def tokens(count):
    for n in range(count):
        yield {"token": n}

@Endpoint(name="model", workers=(0, 1))
class Model:
    def predict(self, x):
        return {"y": x * 2}

    def explain(self, x):
        return f"{x} doubled"
`;

test("a function's outputs, errors, progress, chunks and methods reach the caller as documented", async (t) => {
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const endpoints = await platform.endpoints();
  const call = async (name: string, route: string, body?: unknown, headers?: Record<string, string>) => {
    const { url } = endpoints.find((endpoint) => endpoint.name === name)!;
    return platform.call(`${url}${route}`, { body, headers });
  };
  const runsync = async (name: string, input: object, more: object = {}) =>
    (await call(name, "/runsync", { input, ...more })).json;

  await t.test("a returned error is FAILED with its text", async () => {
    const job = await runsync("jobs", { what: "returned error" });
    assert.deepEqual([job.status, job.error], ["FAILED", "no such customer"]);
  });

  await t.test("a raised exception is FAILED with a JSON error that shows the user's frames", async () => {
    const job = await runsync("jobs", { what: "raised" });
    const error = JSON.parse(job.error);
    assert.deepEqual([job.status, error.error_type, error.error_message], ["FAILED", "LookupError", "nobody"]);
    assert.match(error.error_traceback, /worker\.py/);
    assert.doesNotMatch(error.error_traceback, /_runtime|_values/);
    for (const key of ["hostname", "worker_id", "svc_version"]) assert.ok(error[key], key);
    assert.equal(error.worker_id, job.workerId);
  });

  await t.test("unknown and missing arguments are named with the signature", async () => {
    assert.match((await runsync("jobs", { whta: 1 })).error, /whta.*jobs\(what/s);
    assert.match((await runsync("jobs", {})).error, /what.*jobs\(what/s);
  });

  await t.test("progress stands as output while the job runs", async () => {
    const { json: job } = await call("jobs", "/run", { input: { what: "progress", seconds: 1 } });
    let seen = (await call("jobs", `/status/${job.id}`)).json;
    while (seen.output === undefined) seen = (await call("jobs", `/status/${job.id}`)).json;
    assert.deepEqual([seen.status, seen.output], ["IN_PROGRESS", { percent: 50 }]);
    assert.equal((await call("jobs", `/status-sync/${job.id}`)).json.output, "progress");
  });

  await t.test(
    "a generator's output is the list of its yields; its chunks also come as server-sent events",
    async () => {
      assert.deepEqual((await runsync("tokens", { count: 3 })).output, [{ token: 0 }, { token: 1 }, { token: 2 }]);
      const { json: job } = await call("tokens", "/run", { input: { count: 2 } });
      const { text, headers } = await call("tokens", `/stream/${job.id}`, undefined, { accept: "text/event-stream" });
      assert.equal(headers.get("content-type"), "text/event-stream");
      assert.deepEqual(text.split("\n\n"), [
        'data: {"output":{"token":0}}',
        'data: {"output":{"token":1}}',
        'event: status\ndata: {"status":"COMPLETED"}',
        "",
      ]);
    },
  );

  await t.test("method chooses among a class's methods; an unknown one is named", async () => {
    assert.deepEqual((await runsync("model", { x: 2 }, { method: "predict" })).output, { y: 4 });
    assert.equal((await runsync("model", { x: 2 }, { method: "explain" })).output, "2 doubled");
    const job = await runsync("model", { x: 2 }, { method: "guess" });
    assert.equal(job.status, "FAILED");
    assert.match(job.error, /guess.*(predict|explain)/s);
  });

  await t.test(
    "one Idempotency-Key is one job; low priority waits behind normal ones; a passed ttl deletes",
    async () => {
      const key = { "idempotency-key": "order-17" };
      const first = (await call("jobs", "/runsync", { input: { what: "once" } }, key)).json;
      const again = (await call("jobs", "/run", { input: { what: "once" } }, key)).json;
      assert.deepEqual(again, { id: first.id, status: "COMPLETED" });

      const go = path.join(platform.shared, "go");
      const long = (await call("jobs", "/run", { input: { what: "long", go } })).json;
      while ((await call("jobs", `/status/${long.id}`)).json.status !== "IN_PROGRESS") await delay(5);
      const submit = async (policy: object) => (await call("jobs", "/run", { input: { what: "now" }, policy })).json.id;
      const expiring = await submit({ ttl: 10_000 });
      const low = await submit({ lowPriority: true });
      const normal = await submit({});
      await eventually(async () => assert.equal((await call("jobs", `/status/${expiring}`)).status, 404));
      writeFileSync(go, "");
      const [a, b] = await Promise.all([low, normal].map((id) => call("jobs", `/status-sync/${id}`)));
      assert.ok(a!.json.output > b!.json.output, "the low one ran after the normal one");
    },
  );
});
