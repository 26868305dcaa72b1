/** The Room with a machine, workers and clocks that the test holds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Share } from "../../src/domain/capacity.ts";
import { FAIR_TURN_MS, START_RETRY_MS } from "../../src/domain/limits.ts";
import type { Endpoint, Worker } from "../../src/store/store.ts";
import { Room } from "../../src/workers/room.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";

const WISH = { desired: 1, start: 1, urgent: true, reason: "1 waiting" };

function machine(vcpus: number) {
  const endpoints = new Map<string, Endpoint>();
  const workers: Worker[] = [];
  const shares = new Map<string, Share>();
  const clock = { now: 0, time: 0 };
  /** Why starts are refused. */
  const refused = { lack: undefined as string | undefined };
  const seen = { started: [] as string[], taken: [] as string[], waits: [] as string[], errors: [] as unknown[] };
  const room = new Room({
    capacity: async () => ({
      hardware: { vcpus, memoryGb: 64 },
      vcpus,
      memoryGb: 64,
      gpus: [],
      emulatesGpu: false,
      shares,
    }),
    endpoints: { find: (id) => endpoints.get(id) },
    workers: async () => workers,
    starting: new Map(),
    gpuPreference: () => [],
    sample: (id) => ({
      workers: workers
        .filter(({ endpointId }) => endpointId === id)
        .map((worker) => ({ id: worker.id, ready: true, busy: true, idleMs: 0 })),
    }),
    mayStart: () => true,
    peersWait: () => false,
    start: async ({ name }) => {
      if (refused.lack === undefined) seen.started.push(name);
      return refused.lack;
    },
    take: async (workerId) => {
      seen.taken.push(workerId);
    },
    waits: (id) => seen.waits.push(endpoints.get(id)!.name),
    clock: () => clock.time,
    now: () => clock.now,
    onError: (error) => seen.errors.push(error),
  });
  const endpoint = (name: string, held = 0) => {
    const made = newEndpoint(null, { name, instanceIds: "cpu3c-1-2", workersMax: 3 });
    endpoints.set(made.id, made);
    for (let n = 0; n < held; n++) {
      const worker = newWorker(made.id, { revision: made.revision, state: "READY", readyAt: 0 });
      workers.push(worker);
      shares.set(worker.id, { vcpus: 1, memoryGb: 2, gpus: [] });
    }
    return made.id;
  };
  const end = (id: string) => {
    const at = workers.findIndex(({ endpointId }) => endpointId === id);
    const [worker] = workers.splice(at, 1);
    shares.delete(worker!.id);
  };
  const settled = async () => {
    for (let n = 0; n < 10; n++) await turn();
    assert.deepEqual(seen.errors, []);
  };
  return { room, endpoint, end, clock, seen, settled, endpoints, refused };
}

test("Who finds the machine full waits with a reason, and starts when a worker has ended", async () => {
  const { room, endpoint, end, seen, settled } = machine(1);
  const holder = endpoint("holder", 1);
  const waiting = endpoint("waiting");
  room.want(waiting, WISH, "The machine is full.");
  await settled();
  assert.equal(room.isContended, true);
  assert.equal(room.missing(waiting), 1);
  assert.notEqual(room.waits(waiting)?.reason, "");
  assert.deepEqual([seen.started, room.waits(waiting)?.lasting], [[], false]);
  end(holder);
  room.look();
  await settled();
  assert.deepEqual(seen.started, ["waiting"]);
  assert.deepEqual([room.waits(waiting), room.isContended], [undefined, false]);
});

test("An endpoint with none gets its turn from a busy one when its time has come, not when the clock is set forward", async () => {
  const { room, endpoint, clock, seen, settled } = machine(1);
  endpoint("holder", 1);
  room.want(endpoint("waiting"), WISH);
  clock.time = 10 * FAIR_TURN_MS;
  room.look();
  await settled();
  assert.deepEqual(seen.taken, []);
  clock.now = FAIR_TURN_MS + 1;
  room.look();
  await settled();
  assert.equal(seen.taken.length, 1);
});

test("What no machine like this can ever serve waits in vain and holds up nobody", async () => {
  const { room, endpoint, endpoints, settled } = machine(1);
  const large = endpoint("large");
  endpoints.set(large, { ...endpoints.get(large)!, instanceIds: "cpu3c-8-16" });
  room.want(large, WISH);
  await settled();
  assert.deepEqual([room.waits(large)?.lasting, room.isContended], [true, false]);
});

test("An endpoint that is removed, or wants no more, waits no longer; a closed room starts nothing", async () => {
  const { room, endpoint, end, endpoints, seen, settled } = machine(1);
  const holder = endpoint("holder", 1);
  const [removed, content] = [endpoint("removed"), endpoint("content")];
  room.want(removed, WISH);
  room.want(content, WISH);
  endpoints.delete(removed);
  room.forget(content);
  await settled();
  assert.deepEqual([room.waits(removed), room.waits(content)], [undefined, undefined]);
  const late = endpoint("late");
  room.want(late, WISH);
  room.close();
  end(holder);
  room.look();
  room.want(late, WISH);
  await settled();
  assert.deepEqual([seen.started, room.waits(late)], [[], undefined]);
});

test("Who finds its room taken when it is to start waits on, and tries again by itself", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { room, endpoint, seen, settled, refused } = machine(2);
  const waiting = endpoint("waiting");
  refused.lack = "Another was first.";
  room.want(waiting, { ...WISH, desired: 2, start: 2 });
  await settled();
  assert.deepEqual([seen.started, room.missing(waiting), room.isContended], [[], 2, true]);
  assert.equal(room.waits(waiting)?.reason, "Another was first.");
  refused.lack = undefined;
  t.mock.timers.tick(START_RETRY_MS);
  await settled();
  assert.deepEqual([seen.started, room.waits(waiting), room.isContended], [["waiting", "waiting"], undefined, false]);
});
