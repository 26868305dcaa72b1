import assert from "node:assert/strict";
import { test } from "node:test";
import { checkSettings, defaultSettings, settingsProblems } from "../../src/domain/endpoint.ts";
import { MACHINE_TYPES, machineType } from "../../src/domain/machine-type.ts";
import { quotaProblem } from "../../src/domain/quota.ts";

test("Defaults: workers (0, 3), idle 60 s, one at a time, 10 minutes, CPU cpu3c-1-2", () => {
  const queue = defaultSettings("queue");
  assert.deepEqual(
    [queue.workersMin, queue.workersMax, queue.idleTimeout, queue.maxConcurrency, queue.executionTimeoutMs],
    [0, 3, 60, 1, 600_000],
  );
  assert.deepEqual([queue.scalerType, queue.scalerValue, queue.instanceIds], ["QUEUE_DELAY", 4, "cpu3c-1-2"]);
  assert.equal(defaultSettings("load-balanced").scalerType, "REQUEST_COUNT");
  assert.deepEqual(settingsProblems(queue), []);
  assert.deepEqual(settingsProblems(defaultSettings("queue", "ADA_24")), []);
});

test("All problems of the settings are named at once", () => {
  const wrong = { ...defaultSettings("queue"), workersMin: 5, workersMax: 2, idleTimeout: 0, instanceIds: "cpu9-1-1" };
  assert.throws(() => checkSettings("hello", wrong), {
    code: "INVALID_SETTING",
    message: /"hello".*idleTimeout.*seconds.*workersMin \(5\).*cpu9-1-1/s,
  });
});

test("cpu5c-4-8 means 4 vCPU and 8 GB", () => {
  assert.deepEqual(machineType("cpu5c-4-8"), { id: "cpu5c-4-8", vcpus: 4, memoryGb: 8 });
  assert.deepEqual(machineType("cpu3g-2-8"), { id: "cpu3g-2-8", vcpus: 2, memoryGb: 8 });
  assert.equal(MACHINE_TYPES.length, 12);
  assert.equal(machineType("cpu5c-4-16"), undefined);
});

test("The quota counts workersMax over all endpoints: 30 fit, 31 do not", () => {
  assert.equal(quotaProblem([10, 20]), undefined);
  assert.match(quotaProblem([10, 21])!, /must not exceed your workers quota \(30\).*31.*[Rr]educe/s);
});
