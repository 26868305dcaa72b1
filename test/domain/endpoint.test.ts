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

test("A quota of 30 counts workersMax over all endpoints but those of svc run: 30 fit, 31 do not", () => {
  const endpoint = (name: string, workersMax: number) => ({ name, workersMax });
  const first = endpoint("a", 10);
  assert.equal(quotaProblem([first, endpoint("b", 20), endpoint("live-c", 9)], 30), undefined);
  assert.match(
    quotaProblem([first, endpoint("b", 21)], 30)!,
    /must not exceed your workers quota \(30\); this would need 31: b 21, a 10\. Reduce.*SVC_WORKER_QUOTA/,
  );
  const many = Array.from({ length: 8 }, (_, i) => endpoint(`e${i}`, 5));
  assert.match(quotaProblem(many, 30)!, /e0 5, e1 5, e2 5, e3 5, e4 5, and 3 more\./);
  assert.equal(quotaProblem(many), undefined, "one's own machine is not short of a number");
});
