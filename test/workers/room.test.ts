/** The Room with a machine, workers and clocks that the test holds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Share } from "../../src/domain/capacity.ts";
import { FAIR_IDLE_MS, FAIR_TURN_MS, RIVALS_WAIT_MS, START_RETRY_MS } from "../../src/domain/limits.ts";
import { NO_RIVALS, type Rival, type RivalsAsked, type RoomSide, type RoomTake } from "../../src/domain/rivals.ts";
import type { Endpoint, Worker } from "../../src/store/store.ts";
import { Room } from "../../src/workers/room.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";

/** Another platform on the same machine. */
class Beside {
  side: RoomSide = NO_RIVALS;
  refuses = false;
  readonly asked: RivalsAsked[] = [];
  readonly taken: RoomTake[] = [];
  async rivals(asked: RivalsAsked) {
    this.asked.push(asked);
    return { ...this.side, lacking: {} };
  }
  async take(asked: RoomTake) {
    this.taken.push(asked);
    if (this.refuses) throw new Error("It has something to do.");
  }
}

const NEED = { vcpus: 1, memoryGb: 2, gpuIds: "", gpuPreference: [], gpuCount: 1 };
const IDLE = { id: "w-theirs", idleMs: 10 * FAIR_TURN_MS, upMs: 10 * FAIR_TURN_MS, stale: false };

function rival(changes: Partial<Rival> = {}): Rival {
  const none = { workersMin: 0, wanted: 0, urgent: false, waitingMs: 0 };
  return { id: "theirs", need: NEED, ...none, workers: [], ...changes };
}

const WISH = { desired: 1, start: 1, urgent: true, reason: "1 waiting" };

function machine(vcpus: number, others?: Beside) {
  const endpoints = new Map<string, Endpoint>();
  const workers: Worker[] = [];
  const shares = new Map<string, Share>();
  const clock = { now: 0, time: 0 };
  /** Why starts are refused. */
  const refused = { lack: undefined as string | undefined };
  const seen = { started: [] as string[], taken: [] as string[], waits: [] as string[], errors: [] as unknown[] };
  /** By worker: for how long it has had nothing to do, of those that have. */
  const idleMs = new Map<string, () => number>();
  const room = new Room({
    driver: others === undefined ? {} : { others },
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
        .map(({ id: worker }) => ({
          ...{ id: worker, ready: true, busy: !idleMs.has(worker) },
          idleMs: idleMs.get(worker)?.() ?? 0,
        })),
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
  return { room, endpoint, end, clock, seen, settled, endpoints, refused, workers, shares, idleMs };
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

test("A worker that becomes idle makes room when it has been so for long enough, though a timer was early", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const { room, endpoint, seen, settled, workers, idleMs } = machine(1);
  endpoint("holder", 1);
  room.want(endpoint("waiting"), WISH);
  await settled();
  idleMs.set(workers[0]!.id, () => now);
  room.workerIdle();
  await settled();
  assert.deepEqual(seen.taken, [], "it is idle since this moment");
  now = FAIR_IDLE_MS - 5;
  t.mock.timers.tick(FAIR_IDLE_MS);
  await settled();
  assert.deepEqual(seen.taken, [], "a timer was early");
  now = FAIR_IDLE_MS;
  t.mock.timers.tick(5);
  await settled();
  assert.deepEqual(seen.taken, [workers[0]!.id]);
});

test("An idle worker of another platform is asked for; one that its endpoint is to keep, and those nobody tells of, are not", async () => {
  const beside = new Beside();
  const { room, endpoint, seen, settled, shares } = machine(1, beside);
  shares.set(IDLE.id, { vcpus: 1, memoryGb: 2, gpus: [] });
  const waiting = endpoint("waiting");
  room.want(waiting, WISH);
  await settled();
  assert.deepEqual(beside.taken, [], "nothing is known of it");
  assert.equal(room.missing(waiting), 1);
  beside.side = { contenders: [rival({ workersMin: 1, workers: [IDLE] })], leaving: [] };
  room.look();
  await settled();
  assert.deepEqual(beside.taken, [], "it is the minimum of its endpoint");
  beside.side = { contenders: [rival({ workers: [IDLE] })], leaving: [] };
  room.look();
  await settled();
  const asked = { workerId: IDLE.id, endpointId: "theirs", idle: true, why: 'endpoint "waiting" waits for its room' };
  assert.deepEqual(beside.taken, [asked]);
  beside.side = { contenders: [rival()], leaving: [IDLE.id] };
  room.look();
  await settled();
  assert.deepEqual([beside.taken.length, seen.started], [1, []], "it is on its way");
  shares.delete(IDLE.id);
  room.look();
  await settled();
  assert.deepEqual([seen.started, seen.taken, room.missing(waiting)], [["waiting"], [], 0]);
  assert.deepEqual([beside.asked[0]?.waits, beside.asked.at(-1)?.waits], [false, true]);
});

test("Who is refused a worker by another platform tries again by itself, and who waits no longer asks for none", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const beside = new Beside();
  const { room, endpoint, settled, shares } = machine(1, beside);
  shares.set(IDLE.id, { vcpus: 1, memoryGb: 2, gpus: [] });
  beside.side = { contenders: [rival({ workers: [IDLE] })], leaving: [] };
  beside.refuses = true;
  const waiting = endpoint("waiting");
  room.want(waiting, WISH);
  await settled();
  assert.equal(beside.taken.length, 1);
  t.mock.timers.tick(START_RETRY_MS);
  await settled();
  assert.equal(beside.taken.length, 2);
  room.forget(waiting);
  t.mock.timers.tick(START_RETRY_MS);
  await settled();
  assert.equal(beside.taken.length, 2);
});

test("Room goes to whoever's turn it is, also where that is an endpoint of another platform", async () => {
  const beside = new Beside();
  const { room, endpoint, seen, settled } = machine(1, beside);
  const wish = { wanted: 1, urgent: true, waitingMs: FAIR_TURN_MS };
  beside.side = { contenders: [rival(wish)], leaving: [] };
  room.want(endpoint("waiting"), WISH);
  await settled();
  assert.deepEqual(seen.started, [], "the other one has waited longer");
  beside.side = { contenders: [rival({ ...wish, wanted: 0 })], leaving: [] };
  room.look();
  await settled();
  assert.deepEqual(seen.started, ["waiting"]);
});

test("A worker goes for another platform's endpoint while it is idle and beyond its endpoint's minimum, and then others wait their turn", async () => {
  const { room, endpoint, endpoints, seen, settled, clock, workers, idleMs } = machine(2, new Beside());
  const [kept, holder] = [endpoint("kept", 1), endpoint("holder", 1)];
  endpoints.set(kept, { ...endpoints.get(kept)!, workersMin: 1 });
  const [ofKept, ofHolder] = workers.map(({ id }) => id) as [string, string];
  const give = (workerId: string, endpointId: string) =>
    room.give({ workerId, endpointId, idle: true, why: "it waits" });
  for (const id of [ofKept, ofHolder]) idleMs.set(id, () => 50);
  await assert.rejects(give(ofKept, kept), { code: "NO_CAPACITY" });
  await assert.rejects(give(ofHolder, kept), { code: "NO_CAPACITY" });
  idleMs.delete(ofHolder);
  await assert.rejects(give(ofHolder, holder), { code: "NO_CAPACITY" });
  assert.equal(room.isContended, false);
  idleMs.set(ofHolder, () => 50);
  await give(ofHolder, holder);
  await settled();
  assert.deepEqual([seen.taken, room.isContended], [[ofHolder], true]);
  clock.now += RIVALS_WAIT_MS;
  assert.equal(room.isContended, false);
  workers.splice(1, 1, { ...workers[1]!, state: "DRAINING" });
  const { contenders, leaving } = await room.side(true);
  assert.deepEqual(
    contenders.map(({ id, workersMin, wanted, workers: its }) => [
      id,
      workersMin,
      wanted,
      its.map(({ idleMs: ms }) => ms),
    ]),
    [[kept, 1, 0, [50]]],
  );
  assert.deepEqual([leaving, room.isContended], [[ofHolder], true]);
});
