/** What only a machine with an NVIDIA GPU can show; elsewhere each test says that it was skipped. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { findGpus } from "../../src/drivers/capacity.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const GPUS = await findGpus(process.env.PATH);
/** The first deploy installs torch: a few gigabytes. */
const OPTIONS = {
  timeout: 30 * 60_000,
  skip: GPUS.length === 0 && "needs an NVIDIA GPU, and nvidia-smi finds none on this machine",
};

const TORCH = `
import os
from svc import Endpoint, GpuGroup
import torch

@Endpoint(name="torch-on-gpu", gpu=GpuGroup.ANY, dependencies=["torch"], workers=(0, 1), idle_timeout=1)
def run(n):
    total = (torch.ones(n, device="cuda") * 2).sum().item()
    return {"total": total, "device": torch.cuda.get_device_name(0), "count": torch.cuda.device_count(), "pid": os.getpid()}
`;

test(
  "a torch function runs on the GPU, in workers forked from a zygote that imported torch without CUDA",
  OPTIONS,
  async (t) => {
    const { platform, url, id } = await deployed(t, TORCH);
    const first = await output(platform, url("torch-on-gpu"), { n: 1000 });
    assert.deepEqual([first.total, first.count], [2000, 1]);
    assert.ok(GPUS.includes(first.device), first.device);
    assert.equal(await boot(platform, id("torch-on-gpu")), "fork");
    await until(async () => (await boot(platform, id("torch-on-gpu"))) === undefined);
    const second = await output(platform, url("torch-on-gpu"), { n: 10 });
    assert.equal(second.total, 20, "a second fork of the same zygote uses the GPU too");
    assert.notEqual(second.pid, first.pid);
  },
);

test(
  "a module that initialises CUDA while it is imported gets fresh interpreters, and the reason is shown",
  OPTIONS,
  async (t) => {
    const source = `${TORCH.replaceAll("torch-on-gpu", "eager")}\ntorch.cuda.init()\n`;
    const { platform, url, id } = await deployed(t, source);
    assert.equal((await output(platform, url("eager"), { n: 10 })).total, 20);
    assert.match((await boot(platform, id("eager"))) ?? "", /^spawn.*CUDA is initialised after import/);
  },
);

test("two endpoints share one GPU by fraction, both on the device at once", OPTIONS, async (t) => {
  const source = `
import os, time
from svc import Endpoint, GpuGroup

def use():
    import torch
    torch.cuda.set_per_process_memory_fraction(float(os.environ["SVC_GPU_FRACTION"]))
    total = torch.ones(1000, device="cuda").sum().item()
    time.sleep(2)
    return [total, os.environ["CUDA_VISIBLE_DEVICES"], os.environ["SVC_GPU_FRACTION"]]

@Endpoint(name="one", gpu=GpuGroup.ANY, gpu_count=0.5, dependencies=["torch"], workers=(1, 1))
def one():
    return use()

@Endpoint(name="two", gpu=GpuGroup.ANY, gpu_count=0.5, dependencies=["torch"], workers=(1, 1))
def two():
    return use()
`;
  const { platform, url } = await deployed(t, source);
  const outputs = await Promise.all([output(platform, url("one"), {}), output(platform, url("two"), {})]);
  assert.deepEqual(outputs, [
    [1000, "0", "0.5"],
    [1000, "0", "0.5"],
  ]);
});

test("a worker owns its GPU: no two run on one, and what does not fit waits", OPTIONS, async (t) => {
  const source = `
import os, time
from svc import Endpoint, GpuGroup

@Endpoint(name="own", gpu=GpuGroup.ANY, workers=(0, ${GPUS.length + 1}), scaler_value=1)
def own():
    began = time.time()
    time.sleep(3)
    return [os.environ["CUDA_VISIBLE_DEVICES"], began, time.time()]
`;
  const { platform, url } = await deployed(t, source, { SVC_CPU_OVERCOMMIT: "100", SVC_MEMORY_OVERCOMMIT: "100" });
  const all = Array.from({ length: GPUS.length + 1 }, () => output(platform, url("own"), {}));
  await until(async () => (await platform.call(`${url("own")}/health`)).json.workers.throttled === 1);
  const runs = (await Promise.all(all)) as [device: string, began: number, ended: number][];
  for (const [device, began, ended] of runs) {
    assert.match(device, /^\d+$/);
    const same = runs.filter((other) => other[0] === device && other[1] < ended && began < other[2]);
    assert.equal(same.length, 1, "two jobs ran on one GPU at the same time");
  }
});

async function deployed(t: TestContext, source: string, env: Record<string, string> = {}) {
  const platform = await startPlatform(t, { SVC_EMULATE_GPU: "0", ...env });
  const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": source }) });
  assert.equal(code, 0, stderr);
  const endpoints = await platform.endpoints();
  const named = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!;
  return { platform, url: (name: string) => named(name).url, id: (name: string) => named(name).id };
}

async function output(platform: TestPlatform, url: string, input: object) {
  const { json } = await platform.call(`${url}/runsync?wait=300000`, { body: { input } });
  assert.equal(json.status, "COMPLETED", JSON.stringify(json));
  return json.output;
}

/** How the endpoint's first worker was started; undefined when it has none. */
async function boot(platform: TestPlatform, id: string): Promise<string | undefined> {
  const document = "query($id: String!) { endpoint(id: $id) { pods { boot } } }";
  const { endpoint } = await platform.query<{ endpoint: { pods: { boot: string }[] } }>(document, { id });
  return endpoint.pods[0]?.boot;
}

async function until(reached: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!(await reached())) assert.ok(performance.now() < end, "not reached in 60 s");
}
