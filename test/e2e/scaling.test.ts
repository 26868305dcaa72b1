import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { hostPid, OWN_PID } from "../host-pid.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const WAIT_MS = 90_000;

interface Pod {
  readonly id: string;
  readonly state: string;
}

interface TestEndpoint {
  readonly id: string;
  readonly url: string;
}

test("a burst of 500 jobs from zero: each is done once, never more workers than the maximum, no herd", {
  timeout: 300_000,
}, async (t) => {
  const { platform, endpoints } = await deployed(
    t,
    `
import time
from svc import Endpoint

@Endpoint(name="burst", workers=(0, 6))
def burst(n, diary):
    time.sleep(0.01)
    with open(diary, "a") as file:
        file.write(f"{n}\\n")
    return n
`,
  );
  const burst = endpoints.burst!;
  const counted = watchPods(platform, burst);
  const diary = path.join(platform.shared, "burst");
  writeFileSync(diary, "");
  chmodSync(diary, 0o666);
  const ids = await Promise.all(
    Array.from({ length: 500 }, async (_, n) => (await run(platform, burst, { n, diary })).id as string),
  );
  const jobs = await Promise.all(ids.map((id) => finished(platform, burst, id)));
  assert.deepEqual(
    jobs.map(({ output }) => output),
    ids.map((_, n) => n),
  );
  assert.ok(jobs.every(({ status, retries = 0 }) => status === "COMPLETED" && retries === 0));
  const most = await counted();
  assert.ok(most >= 1 && most <= 6, `${most} workers at once`);
  const started = (await decisions(platform, burst)).reduce((sum, { start, times }) => sum + start * times, 0);
  assert.ok(started >= 1 && started <= 6, `${started} workers were started for it`);
  const done = readFileSync(diary, "utf8").trim().split("\n").map(Number);
  assert.deepEqual(
    done.sort((a, b) => a - b),
    ids.map((_, n) => n),
    "each was run once",
  );
});

const NEIGHBOURS = `
import os, time
from svc import Endpoint

@Endpoint(name="first", workers=(0, 9), idle_timeout=3600, scaler_value=1)
def first(seconds, until=""):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (until and os.path.exists(until)):
        time.sleep(0.02)
    return os.getpid()

@Endpoint(name="second", workers=(0, 9), idle_timeout=1, scaler_value=1)
def second(seconds):
    time.sleep(seconds)
    return os.getpid()
`;

test("on a full machine endpoints share it fairly, at once where a worker is idle, and no job suffers", {
  timeout: 300_000,
}, async (t) => {
  const slots = 2;
  const { platform, endpoints } = await deployed(t, NEIGHBOURS, oneVcpuEach(slots));
  const first = endpoints.first!;
  const second = endpoints.second!;
  const gate = (name: string) => path.join(platform.shared, name);

  await until(async () => (await pods(platform, second)).length === 0);

  await t.test("what does not fit waits IN_QUEUE with the reason", async () => {
    const input = { seconds: 60, until: gate("throttled") };
    const jobs = await Promise.all(Array.from({ length: 12 }, () => run(platform, first, input)));
    // The room of the worker that has just ended is free a moment later.
    await until(async () => (await pods(platform, first)).length === slots && (await throttled(platform, first)) > 0);
    assert.match((await why(platform, first)).join("\n"), /The machine is full: a worker needs 1 vCPU, 0 of 2 is free/);
    writeFileSync(input.until, "");
    for (const { id } of jobs) await finished(platform, first, id);
    assert.equal((await pods(platform, first)).length, slots);
  });

  await t.test("an idle worker's room goes to the endpoint that waits, long before its idle time-out", async () => {
    const { id } = await run(platform, second, { seconds: 0 });
    await finished(platform, second, id);
    assert.match((await why(platform, first)).join("\n"), /endpoint "second" waits for its room/);
    assert.equal((await pods(platform, first)).length, slots - 1);
  });

  await t.test(
    "from one that is always busy it gets its share as soon as a job is done, and each job runs once",
    async () => {
      const input = { seconds: 2, until: gate("shared") };
      const backlog = await Promise.all(Array.from({ length: 24 }, () => run(platform, first, input)));
      const others = await Promise.all(Array.from({ length: 4 }, () => run(platform, second, { seconds: 0.1 })));
      for (const { id } of others) await finished(platform, second, id);
      // A worker whose jobs were short until now may hold those behind its own: they are not in the queue.
      const { json, text } = await platform.call(`${first.url}/health`);
      assert.ok(json.jobs.inQueue + json.jobs.inProgress > slots, `the backlog of the first is not done yet: ${text}`);
      writeFileSync(input.until, "");
      for (const { id } of backlog) {
        const { status, retries = 0 } = await finished(platform, first, id);
        assert.deepEqual([status, retries], ["COMPLETED", 0]);
      }
    },
  );

  await t.test("workersMin is guaranteed first: a busy endpoint gives way", async () => {
    const backlog = await Promise.all(Array.from({ length: 12 }, () => run(platform, first, { seconds: 0.5 })));
    await platform.query("mutation($id: String!) { saveEndpoint(input: {id: $id, workersMin: 2}) { id } }", {
      id: second.id,
    });
    await until(async () => (await ready(platform, second)).length === 2);
    assert.equal((await platform.call(`${first.url}/health`)).json.jobs.failed, 0);
    await platform.query("mutation($id: String!) { saveEndpoint(input: {id: $id, workersMin: 0}) { id } }", {
      id: second.id,
    });
    for (const { id } of backlog) assert.equal((await finished(platform, first, id)).status, "COMPLETED");
  });
});

test("workersMin is kept ready, and a lost worker is replaced", { timeout: 300_000 }, async (t) => {
  const { platform, endpoints } = await deployed(
    t,
    `
import os
from svc import Endpoint

@Endpoint(name="kept", workers=(2, 3), idle_timeout=1)
def kept():
    return ${OWN_PID}
`,
  );
  const kept = endpoints.kept!;
  await until(async () => (await ready(platform, kept)).length === 2);
  const before = (await ready(platform, kept)).map((pod) => pod.id);
  const { json } = await platform.call(`${kept.url}/runsync`, { body: { input: {} } });
  process.kill(hostPid(json.output)!, "SIGKILL");
  await until(async () => {
    const now = (await ready(platform, kept)).map((pod) => pod.id);
    return now.length === 2 && now.some((id) => !before.includes(id));
  });
  assert.ok((await why(platform, kept)).includes("workersMin is 2"));
});

test("low-priority jobs start one worker from zero and scale nothing up", { timeout: 300_000 }, async (t) => {
  const { platform, endpoints } = await deployed(
    t,
    `
import time
from svc import Endpoint

@Endpoint(name="low", workers=(0, 5), scaler_value=1)
def low():
    time.sleep(0.1)
    return 1
`,
  );
  const low = endpoints.low!;
  const counted = watchPods(platform, low);
  const policy = { lowPriority: true };
  const jobs = await Promise.all(Array.from({ length: 30 }, () => run(platform, low, {}, policy)));
  for (const { id } of jobs) assert.equal((await finished(platform, low, id)).status, "COMPLETED");
  assert.equal(await counted(), 1);
});

test("workers that are always busy go when workersMax is lowered, after the job they have", {
  timeout: 300_000,
}, async (t) => {
  const { platform, endpoints } = await deployed(
    t,
    `
import os, time
from svc import Endpoint

@Endpoint(name="lowered", workers=(3, 3), scaler_value=1)
def lowered(until):
    end = time.monotonic() + 2
    while time.monotonic() < end and not os.path.exists(until):
        time.sleep(0.02)
    return 1
`,
  );
  const gate = path.join(platform.shared, "lowered");
  const lowered = endpoints.lowered!;
  const jobs = await Promise.all(Array.from({ length: 24 }, () => run(platform, lowered, { until: gate })));
  await until(async () => (await platform.call(`${lowered.url}/health`)).json.workers.running === 3);
  const down = "mutation($id: String!) { saveEndpoint(input: {id: $id, workersMin: 1, workersMax: 1}) { id } }";
  await platform.query(down, { id: lowered.id });
  await until(async () => (await pods(platform, lowered)).length === 1);
  assert.ok((await platform.call(`${lowered.url}/health`)).json.jobs.inQueue > 0, "they never were idle");
  writeFileSync(gate, "");
  for (const { id } of jobs) {
    const { status, retries = 0 } = await finished(platform, lowered, id);
    assert.deepEqual([status, retries], ["COMPLETED", 0]);
  }
  assert.match((await why(platform, lowered)).join("\n"), /workersMax is 1/);
});

test("two endpoints share a declared GPU by fraction, one that wants it whole waits, and all say that it is emulated", {
  timeout: 300_000,
}, async (t) => {
  const source = `
import os
from svc import Endpoint, GpuGroup, GpuType

def told():
    return [os.environ[name] for name in ("SVC_GPU_FRACTION", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")]

@Endpoint(name="half", gpu=[GpuGroup.ADA_24, GpuType.NVIDIA_L4], gpu_count=0.5, workers=(1, 1))
def half():
    return told()

@Endpoint(name="other-half", gpu=GpuType.NVIDIA_L4, gpu_count=0.5, workers=(1, 1))
def other():
    return told()

@Endpoint(name="whole", gpu=GpuType.NVIDIA_L4, workers=(0, 1))
def whole():
    return told()
`;
  const { platform, endpoints } = await deployed(t, source, { SVC_EMULATE_GPU: "0", SVC_EMULATED_GPUS: "NVIDIA_L4" });
  for (const name of ["half", "other-half"]) {
    const { json } = await platform.call(`${endpoints[name]!.url}/runsync`, { body: { input: {} } });
    assert.deepEqual(json.output, ["0.5", "", "PCI_BUS_ID"], JSON.stringify(json));
  }
  const waits = await platform.call(`${endpoints.whole!.url}/runsync?wait=1000`, { body: { input: {} } });
  assert.equal(waits.json.status, "IN_QUEUE");
  const { stdout } = await platform.svc(["status", "whole", "--app", "app"]);
  assert.match(stdout, /The machine is full: a worker needs 1 GPU, 0 of 1 is free/);
  assert.match(stdout, /GPU emulated: it runs on the CPU of this machine/);
  assert.match((await platform.svc(["status", "half", "--app", "app"])).stdout, /0\.5 × GPU ADA_24,AMPERE_24/);
});

async function deployed(t: TestContext, source: string, env: Record<string, string> = {}) {
  const platform = await startPlatform(t, env);
  const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": source }) });
  assert.equal(code, 0, stderr);
  const list = await platform.endpoints();
  const endpoints: Record<string, TestEndpoint> = Object.fromEntries(list.map((one) => [one.name, one]));
  return { platform, endpoints };
}

/** Capacity for so many workers of one vCPU. */
function oneVcpuEach(workers: number): Record<string, string> {
  const overcommit = (workers + 0.001) / availableParallelism();
  assert.ok(overcommit >= 0.1, "SVC_CPU_OVERCOMMIT goes down to 0.1");
  return { SVC_CPU_OVERCOMMIT: String(overcommit), SVC_MEMORY_OVERCOMMIT: "100" };
}

async function run(platform: TestPlatform, endpoint: TestEndpoint, input: object, policy = {}) {
  const answer = await platform.call(`${endpoint.url}/run`, { body: { input, policy } });
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

async function finished(platform: TestPlatform, endpoint: TestEndpoint, id: string, withinMs = WAIT_MS) {
  const { json } = await platform.call(`${endpoint.url}/status-sync/${id}?wait=${withinMs}`);
  assert.ok(!["IN_QUEUE", "IN_PROGRESS"].includes(json.status), `${id} is ${json.status} after ${withinMs} ms`);
  return json;
}

/** Workers that are not on their way out. */
async function pods(platform: TestPlatform, { id }: TestEndpoint): Promise<Pod[]> {
  const document = "query($id: String!) { endpoint(id: $id) { pods { id desiredStatus state } } }";
  type Found = { endpoint: { pods: (Pod & { desiredStatus: string })[] } };
  const { endpoint } = await platform.query<Found>(document, { id });
  return endpoint.pods.filter((pod) => pod.desiredStatus === "RUNNING");
}

async function ready(platform: TestPlatform, endpoint: TestEndpoint): Promise<Pod[]> {
  return (await pods(platform, endpoint)).filter((pod) => pod.state === "READY");
}

async function decisions(platform: TestPlatform, { id }: TestEndpoint) {
  const document = "query($id: String!) { endpoint(id: $id) { decisions { start stop times reason } } }";
  type Found = { endpoint: { decisions: { start: number; stop: number; times: number; reason: string }[] } };
  return (await platform.query<Found>(document, { id })).endpoint.decisions;
}

async function why(platform: TestPlatform, endpoint: TestEndpoint): Promise<string[]> {
  return (await decisions(platform, endpoint)).map(({ reason }) => reason);
}

async function throttled(platform: TestPlatform, endpoint: TestEndpoint): Promise<number> {
  return (await platform.call(`${endpoint.url}/health`)).json.workers.throttled;
}

/** Counts the endpoint's workers from now on; the returned function ends it and resolves the most there were at once. */
function watchPods(platform: TestPlatform, endpoint: TestEndpoint): () => Promise<number> {
  let most = 0;
  let going = true;
  const watching = (async () => {
    while (going) most = Math.max(most, (await pods(platform, endpoint)).length);
  })();
  return async () => {
    going = false;
    await watching;
    return most;
  };
}

async function until(reached: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + WAIT_MS;
  while (!(await reached())) assert.ok(performance.now() < end, `not reached in ${WAIT_MS} ms`);
}
