import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decide } from "../../src/autoscaler/decide.ts";
import type { SampledWorker } from "../../src/autoscaler/sample.ts";
import { QUIET } from "./quiet.ts";

const worker = (changes: Partial<SampledWorker> = {}): SampledWorker => ({
  id: "w",
  current: true,
  ready: true,
  busy: false,
  idleMs: 0,
  ...changes,
});

test("Without work and without a minimum there are no workers", () => {
  assert.deepEqual(decide(QUIET), { start: 0, desired: 0, urgent: false, stop: [], drain: [], reason: "" });
});

test("The first queued job starts a worker at once", () => {
  assert.equal(decide({ ...QUIET, queued: 1, averageExecMs: 1 }).start, 1);
});

test("QUEUE_DELAY starts so many workers that no job waits longer than scalerValue seconds", () => {
  assert.equal(decide({ ...QUIET, queued: 12, averageExecMs: 1_000 }).start, 3);
  assert.equal(decide({ ...QUIET, queued: 8, averageExecMs: 1_000 }).start, 2);
  assert.equal(decide({ ...QUIET, queued: 8, averageExecMs: 1_000, maxConcurrency: 2 }).start, 1);
});

test("QUEUE_DELAY keeps the workers that the load keeps busy, and some room for small bursts", () => {
  const busy = { ...QUIET, running: 2, averageExecMs: 1_000, workersMax: 9 };
  assert.equal(decide({ ...busy, averageLoad: 2 }).start, 3);
  assert.equal(decide({ ...busy, averageLoad: 4 }).start, 6);
});

test("A long job keeps its worker and asks for no other; each that waits gets its own", () => {
  const long = { ...QUIET, averageExecMs: 60_000, workersMax: 9, running: 1, averageLoad: 1 };
  assert.equal(decide({ ...long, workers: [worker({ busy: true })] }).start, 0);
  assert.equal(decide({ ...long, queued: 2, workers: [worker({ busy: true })] }).start, 2);
});

test("REQUEST_COUNT starts one worker for each scalerValue requests", () => {
  assert.equal(decide({ ...QUIET, scalerType: "REQUEST_COUNT", waitingRequests: 9, workersMax: 9 }).start, 3);
});

test("Workers that already start are counted: no herd", () => {
  const booting = [
    worker({ id: "a", ready: false }),
    worker({ id: "b", ready: false }),
    worker({ id: "c", ready: false }),
  ];
  assert.equal(decide({ ...QUIET, queued: 500, workers: booting }).start, 0);
});

test("Low-priority jobs start one worker from zero and never more", () => {
  assert.equal(decide({ ...QUIET, queuedLowPriority: 500 }).start, 1);
  assert.equal(decide({ ...QUIET, queuedLowPriority: 500, workers: [worker({ busy: true })] }).start, 0);
});

test("Low-priority jobs that run ask for nothing; among others, what they hold is made up for, at most as much again", () => {
  const busy = Array.from({ length: 3 }, (_, i) => worker({ id: String(i), busy: true }));
  const low = {
    ...QUIET,
    workersMax: 30,
    running: 3,
    runningLowPriority: 3,
    averageExecMs: 1_000,
    averageLowPriority: 3,
  };
  assert.equal(decide({ ...low, queuedLowPriority: 500, workers: busy }).start, 0, "500 wait, 3 run: no worker more");
  const mixed = { ...low, running: 4, averageLoad: 1, workers: [...busy, worker({ id: "3", busy: true })] };
  assert.equal(decide(mixed).start, 0, "one of the others: (1 + 1) / 0.66 slots");
  assert.equal(decide({ ...mixed, running: 6, averageLoad: 3, queuedLowPriority: 500 }).start, 6);
});

test("The minimum is kept, and replaced when lost", () => {
  assert.equal(decide({ ...QUIET, workersMin: 2 }).start, 2);
  assert.equal(decide({ ...QUIET, workersMin: 2, workers: [worker()] }).start, 1);
});

test("A worker goes after it has been idle for the idle time-out", () => {
  assert.deepEqual(decide({ ...QUIET, workers: [worker({ idleMs: 59_999 })] }).stop, []);
  assert.deepEqual(decide({ ...QUIET, workers: [worker({ idleMs: 60_000 })] }).stop, ["w"]);
});

test("Above workersMax an idle worker goes at once, a busy one when its work is done", () => {
  const workers = [worker({ id: "a", busy: true }), worker({ id: "b" }), worker({ id: "c", idleMs: 5 })];
  const lowered = { ...QUIET, workersMin: 1, running: 1, averageLoad: 3, averageExecMs: 1, workers };
  assert.deepEqual(decide({ ...lowered, workersMax: 2 }), {
    start: 0,
    desired: 1,
    urgent: false,
    stop: ["c"],
    drain: [],
    reason: "workersMax is 2",
  });
  assert.deepEqual(decide({ ...lowered, workersMax: 1 }).stop, ["c", "b"]);
  assert.deepEqual(decide({ ...lowered, workersMax: 3 }).stop, []);
});

test("Workers above workersMax that are always busy take no more work, and go when they have finished what they have", () => {
  const workers = ["a", "b", "c"].map((id) => worker({ id, busy: true }));
  const lowered = { ...QUIET, running: 3, queued: 50, averageExecMs: 1_000, workers };
  assert.deepEqual(
    [decide({ ...lowered, workersMax: 1 }).stop, decide({ ...lowered, workersMax: 1 }).drain],
    [[], ["a", "b"]],
  );
  const oneIdle = [...workers, worker({ id: "d" })];
  const { stop, drain } = decide({ ...lowered, workersMax: 2, workers: oneIdle });
  assert.deepEqual([stop, drain], [["d"], ["a"]]);
});

test("Workers of an earlier revision stay until a current one is ready, then all go", () => {
  const stale = [worker({ id: "old", current: false, busy: true })];
  assert.deepEqual(decide({ ...QUIET, workers: stale }), {
    start: 1,
    desired: 1,
    urgent: true,
    stop: [],
    drain: [],
    reason: "a new revision must show that it starts",
  });
  assert.deepEqual(decide({ ...QUIET, workers: [...stale, worker({ id: "new", ready: false })] }).stop, []);
  assert.deepEqual(decide({ ...QUIET, workers: [...stale, worker({ id: "new" })] }).stop, ["old"]);
});

test("workersMax 0 stops every worker", () => {
  assert.deepEqual(decide({ ...QUIET, workersMax: 0, queued: 5, workers: [worker({ busy: true })] }).stop, ["w"]);
});

test("Whatever the sample: never beyond workersMax, never a busy current worker stopped, never below the minimum", () => {
  const sampledWorker = fc.record({
    id: fc.uuid(),
    current: fc.boolean(),
    ready: fc.boolean(),
    busy: fc.boolean(),
    idleMs: fc.nat(200_000),
  });
  const sample = fc.record({
    scalerType: fc.constantFrom("QUEUE_DELAY" as const, "REQUEST_COUNT" as const),
    scalerValue: fc.integer({ min: 1, max: 50 }),
    workersMin: fc.nat(5),
    extra: fc.integer({ min: 1, max: 10 }),
    idleTimeoutMs: fc.integer({ min: 1_000, max: 100_000 }),
    maxConcurrency: fc.integer({ min: 1, max: 20 }),
    queued: fc.nat(10_000),
    queuedLowPriority: fc.nat(100),
    oldestWaitMs: fc.nat(100_000),
    waitingRequests: fc.nat(1_000),
    running: fc.nat(100),
    runningLowPriority: fc.nat(100),
    averageExecMs: fc.option(fc.nat(60_000), { nil: undefined }),
    averageLoad: fc.nat(1_000),
    averageLowPriority: fc.nat(1_000),
    workers: fc.array(sampledWorker, { maxLength: 12 }),
    mustProve: fc.boolean(),
  });
  fc.assert(
    fc.property(sample, ({ extra, ...rest }) => {
      const given = { ...rest, workersMax: rest.workersMin + extra };
      const { start, stop, drain } = decide(given);
      const current = given.workers.filter((one) => one.current);
      const stoppedCurrent = current.filter((one) => stop.includes(one.id));
      assert.ok(start === 0 || current.length + start <= given.workersMax);
      assert.ok(stoppedCurrent.every((one) => !one.busy));
      assert.ok(drain.length <= Math.max(0, current.length - given.workersMax));
      assert.ok(current.length - stoppedCurrent.length - drain.length <= given.workersMax);
      assert.ok(stoppedCurrent.length === 0 || current.length - stoppedCurrent.length >= given.workersMin);
      assert.ok(start === 0 || stoppedCurrent.length === 0);
    }),
  );
});
