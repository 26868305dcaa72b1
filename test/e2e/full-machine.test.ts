/** Endpoints that call each other on a machine that has no room left for the one that is called. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { project, startPlatform, tempDir } from "./platform.ts";

/** The least that can be declared, or one vCPU: `VCPUS` workers of the smallest machine type fill it. */
const OVERCOMMIT = Math.max(0.1, 1 / availableParallelism());
const VCPUS = Math.floor(availableParallelism() * OVERCOMMIT);
const FULL = { SVC_CPU_OVERCOMMIT: String(OVERCOMMIT), SVC_MEMORY_OVERCOMMIT: "1000" };

const CODE = {
  "callee.py": `from svc import Endpoint

@Endpoint(name="callee", workers=(0, 1), idle_timeout=1)
def double(n: int) -> int:
    return 2 * n

@Endpoint(name="deepest", workers=(0, 1), idle_timeout=1)
def add(n: int) -> int:
    return n + 1

@Endpoint(name="between", workers=(0, 1), idle_timeout=1)
def through(n: int) -> int:
    return add(n)

api = Endpoint(name="api", workers=(0, 1), idle_timeout=1)

@api.post("/triple")
def triple(n: int) -> int:
    return 3 * n
`,
  "caller.py": `from svc import Endpoint
from callee import double, through, triple

@Endpoint(name="caller", workers=(0, ${VCPUS}), idle_timeout=1)
def call(n: int) -> list:
    return [double(n), triple(n), through(n)]
`,
};

test("workers that wait for an endpoint get it one worker beyond the machine, so that no call waits for ever", async (t) => {
  const platform = await startPlatform(t, FULL);
  const large = `from svc import Endpoint\n\n@Endpoint(name="large", cpu=(${VCPUS + 1}, 1))\ndef large(): ...\n`;
  const refused = await platform.svc(["deploy"], { cwd: project(t, { "large.py": large }) });
  assert.equal(refused.code, 1, "what can never start is told at the deploy, before it is built");
  assert.match(refused.stderr, new RegExp(`"large": cpu="${VCPUS + 1}-1" is ${VCPUS + 1} vCPU and 1 GB, and this`));
  const cwd = project(t, CODE);
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const call = () => platform.call(`${urls.caller}/runsync`, { body: { input: { n: 5 } } });
  const answers = await Promise.all(Array.from({ length: VCPUS }, call));
  for (const { json } of answers) {
    assert.deepEqual([json.status, json.output, json.error], ["COMPLETED", [10, 15, 6], undefined]);
  }
});

test("calls of an endpoint that stands at workersMax wait their turn, and all of them finish", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, {
    "one.py": `import time
from svc import Endpoint

@Endpoint(name="one", cpu=(0.5, 0.5), workers=(0, 1))
def slow(n: int) -> int:
    time.sleep(0.1)
    return n
`,
    "many.py": `from svc import Endpoint
from one import slow

@Endpoint(name="many", workers=(0, 3))
def call(n: int) -> int:
    return slow(n) + 1
`,
  });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const { url } = (await platform.endpoints()).find(({ name }) => name === "many")!;
  const call = (n: number) => platform.call(`${url}/runsync`, { body: { input: { n } } });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => call(n)));
  assert.deepEqual(
    answers.map(({ json }) => json.output),
    Array.from({ length: 12 }, (_, n) => n + 1),
  );
});

test("a GPU is not lent twice: the call waits, and svc status says why", async (t) => {
  const bin = tempDir(t);
  // A program that stands in for nvidia-smi: there need be no GPU here.
  const says = 'case "$*" in *utilization*) echo 0, 37, 2048 ;; *) echo NVIDIA L4 ;; esac';
  writeFileSync(path.join(bin, "nvidia-smi"), `#!/bin/sh\n${says}\n`, { mode: 0o755 });
  const platform = await startPlatform(t, { SVC_EMULATE_GPU: "0", PATH: `${bin}:${process.env.PATH}` });
  const cwd = project(t, {
    "inner.py": `from svc import Endpoint, GpuGroup

@Endpoint(name="inner", gpu=GpuGroup.ANY, workers=(0, 1), idle_timeout=1)
def inner(n: int) -> int:
    return n
`,
    "outer.py": `from svc import Endpoint, GpuGroup
from inner import inner

@Endpoint(name="outer", gpu=GpuGroup.ANY, workers=(0, 1), idle_timeout=1)
def outer(n: int) -> int:
    return inner(n)
`,
  });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const { url } = (await platform.endpoints()).find(({ name }) => name === "outer")!;
  const call = await platform.call(`${url}/run`, { body: { input: { n: 1 } } });
  await eventually(async () => {
    const { stdout } = await platform.svc(["status"], { cwd });
    assert.match(stdout, /inner: .*1 GPU.*a GPU cannot be lent twice/s);
  });
  assert.equal((await platform.call(`${url}/status/${call.json.id}`)).json.status, "IN_PROGRESS");
  await platform.call(`${url}/cancel/${call.json.id}`, { method: "POST" });

  await eventually(async () => {
    assert.match((await platform.call("/metrics")).text, /^svc_gpu_busy_ratio\{gpu="0"\} 0\.37$/m);
  });
  const document = `query ($from: Float!, $to: Float!) {
    capacity { gpus { name busy usedGb } } series(metric: "machine.gpuUsed", from: $from, to: $to) { points { value } }
  }`;
  await eventually(async () => {
    const range = { from: Date.now() - 60_000, to: Date.now() };
    const { capacity, series } = await platform.query<Measured>(document, range);
    assert.deepEqual(capacity.gpus, [{ name: "NVIDIA L4", busy: 0.37, usedGb: 2 }]);
    assert.ok(series.points.some(({ value }) => value === 0.37));
  });
});

interface Measured {
  readonly capacity: { readonly gpus: readonly object[] };
  readonly series: { readonly points: readonly { readonly value: number | null }[] };
}
