/** What an agent offers in a Pod of an endpoint's own image: what the container beside it was given, whatever this machine has. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { offeredMachine } from "../../src/host/machine-facts.ts";
import { readConfig } from "../../src/server/config.ts";

test("It has the size that its Pod was made with, and the GPUs that it is told of", async () => {
  const env = { SVC_DATA_DIR: "/d", SVC_POD_DIR: "/opt/svc/pod", SVC_POD_GPUS: "NVIDIA_L4,NVIDIA_L4" };
  const config = readConfig(env);
  assert.deepEqual([config.driver, config.pod.folder], ["pod", "/opt/svc/pod"]);
  const { capacity } = await offeredMachine(config, { cpus: 4096, memoryGb: 9_000, gpus: undefined });
  assert.deepEqual(
    [capacity.vcpus, capacity.memoryGb],
    [4096 * config.cpuOvercommit, Math.floor(9_000 * config.memoryOvercommit)],
  );
  assert.deepEqual(
    capacity.gpus.map(({ emulated }) => emulated),
    [false, false],
  );
  assert.match(capacity.gpus[0]!.product, /L4/);
  assert.equal(readConfig({ SVC_DATA_DIR: "/d" }).driver, "process");
  assert.throws(() => readConfig({ ...env, SVC_POD_DIR: "pod" }), /SVC_POD_DIR: is not an absolute path/);
  assert.throws(() => readConfig({ ...env, SVC_POD_GPUS: "none" }), /"none" is no GPU of the catalogue/);
});
