/** SVC_DOCKER_RUNTIME: containers run with the runtime that was asked for, or the platform does not start. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { requireRuntime } from "../../src/drivers/docker/engine.ts";
import { containerOptions } from "../../src/drivers/docker/worker-container.ts";
import { readConfig } from "../../src/server/config.ts";

const PLAN = {
  name: "n",
  imageId: "i",
  python: "python3",
  user: "1:1",
  hostUsers: false,
  mounts: [],
  network: "net",
  share: { memoryBytes: 1, vcpus: 1 },
  extraHosts: [],
  gpus: false,
  labels: {},
};

test("the runtime reaches the container, and one that the engine lacks is refused with those it has", () => {
  const { docker } = readConfig({ SVC_DATA_DIR: "/x", SVC_DOCKER_RUNTIME: "runsc" });
  assert.equal(containerOptions({ ...PLAN, runtime: docker.runtime }).HostConfig?.Runtime, "runsc");
  assert.equal(containerOptions({ ...PLAN, runtime: "" }).HostConfig?.Runtime, undefined);
  assert.doesNotThrow(() => requireRuntime({ runtimes: ["runc", "runsc"] }, docker.runtime));
  assert.doesNotThrow(() => requireRuntime({ runtimes: [] }, ""));
  assert.throws(() => requireRuntime({ runtimes: ["runc", "crun"] }, docker.runtime), {
    code: "CONFIG_INVALID",
    message: /no runtime "runsc"/,
    help: /It has runc, crun\./,
  });
});
