import assert from "node:assert/strict";
import { test } from "node:test";
import { project, startPlatform } from "./platform.ts";

const WORKER = `
import time
from svc import Endpoint

@Endpoint(name="divide", workers=(0, 1))
def divide(a, b, seconds=0):
    time.sleep(seconds)
    return {"quotient": a / b}

@Endpoint(name="show", workers=(0, 1))
def show():
    return 1
`;

test("svc jobs lists an endpoint's jobs; show, output, retry and cancel look after one", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "worker.py": WORKER });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const endpoints = await platform.endpoints();
  const { url } = endpoints.find(({ name }) => name === "divide")!;
  const runsync = async (input: object) => (await platform.call(`${url}/runsync`, { body: { input } })).json;
  const jobs = (...args: string[]) => platform.svc(["jobs", ...args], { cwd });
  const good = await runsync({ a: 6, b: 3 });
  const bad = await runsync({ a: 1, b: 0 });

  const list = await jobs("divide");
  assert.equal(list.code, 0, list.stderr);
  const [head, first, second] = list.stdout.split("\n");
  assert.match(head!, /^JOB +STATUS +WAITED +RAN +WORKER +ERROR/);
  assert.match(first!, new RegExp(`^${bad.id} +FAILED .* ms .*ZeroDivisionError: division by zero`));
  assert.match(second!, new RegExp(`^${good.id} +COMPLETED`));

  const failed = JSON.parse((await jobs("divide", "--status", "failed", "--json")).stdout);
  assert.deepEqual(
    failed.map((job: { id: string; input: object }) => [job.id, job.input]),
    [[bad.id, { a: 1, b: 0 }]],
  );
  const one = await jobs("divide", "--limit", "1");
  assert.match(one.stderr, /There are more/);

  const show = await jobs("show", bad.id);
  assert.match(show.stdout, /ZeroDivisionError: division by zero\n.*worker\.py.*"b": 0/s);
  assert.equal(JSON.parse((await jobs("show", good.id, "--json", "--endpoint", "divide")).stdout).output.quotient, 2);
  assert.deepEqual(JSON.parse((await jobs("output", good.id)).stdout), { quotient: 2 });
  const none = await jobs("output", bad.id);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no output: it is FAILED: ZeroDivisionError/);

  const retry = await jobs("retry", bad.id);
  assert.equal(retry.stdout, `${bad.id} is back in the queue.\n`);
  await platform.call(`${url}/status-sync/${bad.id}?wait=10000`);
  const refused = await jobs("retry", good.id);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /COMPLETED; only FAILED and TIMED_OUT/);

  const slow = (await platform.call(`${url}/run`, { body: { input: { a: 1, b: 1, seconds: 600 } } })).json;
  assert.equal((await jobs("cancel", slow.id)).stdout, `${slow.id} is cancelled.\n`);
  assert.match((await jobs("cancel", slow.id)).stdout, /was CANCELLED already/);

  const unknown = await jobs("show", "nothing");
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /No endpoint has a job "nothing"/);
  assert.match((await jobs("divid")).stderr, /Did you mean divide\?/);
  assert.match((await jobs("list", "show")).stderr, /show \(app\/production\) has no jobs/);
  assert.equal((await jobs("divide", "--status", "LOST")).code, 2);
});
