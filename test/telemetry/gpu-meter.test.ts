/**
 * How busy GPUs are, with a program that stands in for nvidia-smi, as machines without a GPU have none: what it prints is in the form
 * that nvidia-smi prints for the same question (`csv,noheader,nounits`), also of a GPU that is cut in parts.
 */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { GPU_FRESH_MS, GPU_SAMPLE_MS } from "../../src/domain/limits.ts";
import { GpuMeter } from "../../src/telemetry/gpu-meter.ts";
import { MachineMeter, recordedUse } from "../../src/telemetry/machine-use.ts";
import { eventually } from "../eventually.ts";

const PRINTED = "0, 37, 12045\n1, 0, 0\n2, [N/A], 40960\n3, [Unknown Error], [N/A]\n";

function metered(t: TestContext, script: string) {
  const bin = mkdtempSync(path.join(tmpdir(), "svc-gpu-"));
  const before = process.env.PATH;
  process.env.PATH = `${bin}:${before}`;
  const say = (text: string) => writeFileSync(path.join(bin, "nvidia-smi"), `#!/bin/sh\n${text}`, { mode: 0o755 });
  say(script);
  let now = 0;
  const told: string[] = [];
  const meter = new GpuMeter({ now: () => now, told: (line) => told.push(line) });
  t.after(() => {
    meter.close();
    process.env.PATH = before;
    rmSync(bin, { recursive: true, force: true });
  });
  return {
    ...{ meter, told, say, bin },
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test("What nvidia-smi says of each GPU is known; what it does not know is missing, and is not 0", async (t) => {
  const { meter } = metered(t, `echo "$*" > "$(dirname "$0")/asked"; printf '${PRINTED}'`);
  assert.deepEqual(meter.read(), [], "nobody waits for it");
  await eventually(() => assert.ok(meter.read().length > 0));
  const gpus = meter.read();
  assert.deepEqual(gpus, [
    { index: 0, busy: 0.37, memoryGb: 12045 / 1024 },
    { index: 1, busy: 0, memoryGb: 0 },
    { index: 2, busy: null, memoryGb: 40 },
  ]);
  const gpu = { product: "NVIDIA L4", emulated: false };
  const hardware = { vcpus: 2, memoryGb: 4 };
  const capacity = { ...hardware, hardware, gpus: [gpu, gpu, gpu, gpu], emulatesGpu: false, shares: new Map() };
  const { numbers } = recordedUse(new MachineMeter().read(capacity, gpus));
  assert.equal(numbers["machine.gpuUsed"], 0.37);
  assert.equal(numbers["machine.gpuGbUsed"], 51.763);
  const unmeasured = recordedUse(new MachineMeter().read(capacity, []));
  assert.ok(!Object.keys(unmeasured.numbers).some((name) => name.startsWith("machine.gpuUsed")));
});

test("It is asked again after a while, and what it said long ago does not count", async (t) => {
  const { meter, pass, say, told } = metered(t, "echo 0, 10, 1024");
  await eventually(() => assert.equal(meter.read()[0]?.busy ?? meter.read()[0], 0.1));
  say("echo 0, 90, 1024");
  assert.equal(meter.read()[0]!.busy, 0.1, "not before its time");
  pass(GPU_SAMPLE_MS);
  await eventually(() => assert.equal(meter.read()[0]!.busy, 0.9));
  say("echo Failed to initialize NVML; exit 9");
  pass(GPU_FRESH_MS);
  assert.deepEqual(meter.read(), []);
  await eventually(() => assert.equal(told.length, 1));
  pass(GPU_SAMPLE_MS);
  meter.read();
  say("echo 0, 20, 1024");
  await eventually(() => {
    pass(GPU_SAMPLE_MS);
    assert.equal(meter.read()[0]?.busy, 0.2);
  });
  assert.deepEqual(told, ["nvidia-smi does not say how busy the GPUs are: it is missing in the metrics"]);
});

test("One that hangs or never stops talking is ended, and never runs twice at once", async (t) => {
  const { meter, pass, told, bin, say } = metered(t, `echo $$ >> "$(dirname "$0")/runs"; exec sleep 600`);
  const runs = path.join(bin, "runs");
  meter.read();
  await eventually(() => assert.ok(existsSync(runs)));
  for (let n = 0; n < 5; n++) {
    pass(GPU_SAMPLE_MS);
    assert.deepEqual(meter.read(), []);
  }
  await eventually(() => assert.equal(told.length, 1));
  const [pid, ...others] = readFileSync(runs, "utf8").trim().split("\n");
  assert.deepEqual(others, []);
  assert.ok(!existsSync(`/proc/${pid}`) || process.platform !== "linux");
  say("yes 0, 10, 1024");
  pass(GPU_SAMPLE_MS);
  meter.read();
  say("echo 0, 30, 1024");
  await eventually(() => {
    pass(GPU_SAMPLE_MS);
    assert.equal(meter.read()[0]?.busy, 0.3);
  });
});
