/** Workers of endpoints that come from another platform, with a driver that the test holds; the store is the real one. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { SvcError } from "../../src/domain/errors.ts";
import { WORKER_AHEAD_MAX_MS, WORKERS_AHEAD_MAX } from "../../src/domain/limits.ts";
import type { WorkerDriver, WorkerSpec } from "../../src/drivers/worker-driver.ts";
import type { Endpoint, Worker } from "../../src/store/store.ts";
import type { Images } from "../../src/workers/images.ts";
import { WorkersAhead } from "../../src/workers/workers-ahead.ts";
import { newEndpoint } from "../conformance/store.ts";
import { openTestStore } from "../store/open-store.ts";

const MANY = 1_000_000;

async function rig(t: TestContext, settings: Partial<Endpoint> = {}) {
  const { store, close } = await openTestStore();
  t.after(close);
  const endpoint = newEndpoint(null, { buildId: "build-1", workersMax: 3, ...settings } as Partial<Endpoint>);
  await store.endpoints.insert(endpoint);
  const seen = { started: [] as string[], stopped: [] as string[], adopted: [] as string[], errors: [] as unknown[] };
  const is = { crowded: false, mine: false, room: MANY };
  const driver = {
    async start({ workerId, beyondCapacity }: WorkerSpec) {
      assert.equal(beyondCapacity, false);
      if (seen.started.length >= is.room) throw new SvcError("NO_CAPACITY", "The machine is full.");
      seen.started.push(workerId);
    },
    async stop(workerId: string) {
      seen.stopped.push(workerId);
    },
  };
  const prepared = { image: { buildId: "build-1", endpointId: endpoint.id, volumes: [] } };
  const ahead = new WorkersAhead({
    store,
    driver: driver as unknown as WorkerDriver,
    isMine: () => is.mine,
    images: { makeReady: async () => {}, of: () => prepared as unknown as ReturnType<Images["of"]> },
    envOf: async () => ({}),
    isFull: () => false,
    link: { expectPull: () => {} },
    clock: () => 0,
    isCrowded: () => is.crowded,
    adopted: (id) => seen.adopted.push(id),
    log: () => {},
    onError: (error) => seen.errors.push(error),
  });
  t.after(() => ahead.close());
  const wish = (workers: number, revision = endpoint.revision) => ({ endpointId: endpoint.id, revision, workers });
  const rows = async () => (await store.workers.list()).map(({ id }) => id);
  const begun = async (count: number) => {
    while (seen.started.length < count || seen.started.some((id) => ahead.has(id) && !ahead.find(id))) await turn();
  };
  /** One more, which is ready. */
  const readied = async (revision = endpoint.revision) => {
    const nth = seen.started.length;
    const asked = ahead.prepare([wish(1, revision)]);
    await begun(nth + 1);
    ahead.ready(seen.started[nth]!);
    await asked;
  };
  return { ahead, store, endpoint, seen, is, wish, rows, begun, readied };
}

const all = () => true;

test("As many workers as run elsewhere are started for an endpoint that comes; they have no row before it is here, and are its own then", async (t) => {
  const { ahead, store, endpoint, seen, wish, rows, begun } = await rig(t);
  const asked = ahead.prepare([wish(2)]);
  await begun(2);
  const [one, other] = seen.started as [string, string];
  assert.deepEqual([await rows(), ahead.find(one)?.endpointId], [[], endpoint.id]);
  assert.equal(ahead.ofToken(ahead.find(other)!.tokenHash)?.id, other);
  for (const id of seen.started) assert.equal(ahead.ready(id), true);
  assert.equal(await asked, 2);
  assert.equal(await ahead.prepare([wish(2)]), 2, "who asks again gets no others");
  assert.equal(seen.started.length, 2);

  assert.equal(
    ahead.adopt(() => false),
    undefined,
  );
  await Promise.all([ahead.adopt(all), ahead.adopt(all)]);
  assert.deepEqual([(await rows()).sort(), seen.adopted.sort()], [[one, other].sort(), [one, other].sort()]);
  assert.equal((await store.workers.find(one))?.state, "STARTING");
  assert.deepEqual([ahead.has(one), ahead.ready(one), ahead.adopt(all)], [false, false, undefined]);
  assert.deepEqual([seen.stopped, seen.errors], [[], []]);
});

test("One that is not ready when its endpoint comes counts as being started, and gets work by itself", async (t) => {
  const { ahead, seen, wish, rows, begun } = await rig(t);
  const asked = ahead.prepare([wish(1)]);
  await begun(1);
  await ahead.adopt(all);
  assert.deepEqual([await rows(), seen.adopted, await asked], [seen.started, [], 0]);
});

test("None is started while others wait for room or where there is none, and those that run make room", async (t) => {
  const { ahead, seen, is, wish, begun } = await rig(t);
  is.crowded = true;
  assert.deepEqual([await ahead.prepare([wish(1)]), seen.started], [0, []]);
  is.crowded = false;
  is.room = 1;
  const asked = ahead.prepare([wish(3)]);
  await begun(1);
  ahead.ready(seen.started[0]!);
  assert.equal(await asked, 1, "it says that it cannot have more");
  ahead.giveUp();
  assert.deepEqual([seen.stopped, ahead.has(seen.started[0]!)], [seen.started, false]);
  ahead.close();
  is.room = MANY;
  assert.equal(await ahead.prepare([wish(3)]), 0, "nor when the platform stops");
  assert.equal(seen.started.length, 1);
});

test("Those that fail or end are not waited for, and those whose endpoint never comes end", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { ahead, seen, wish, rows, begun } = await rig(t);
  const asked = ahead.prepare([wish(3)]);
  await begun(3);
  const [fails, ends, stays] = seen.started as [string, string, string];
  assert.deepEqual([ahead.failed(fails), ahead.failed("w-another")], [true, false]);
  ahead.exited(ends);
  ahead.ready(stays);
  assert.equal(await asked, 1);
  t.mock.timers.tick(WORKER_AHEAD_MAX_MS - 1);
  assert.deepEqual(seen.stopped, [fails]);
  t.mock.timers.tick(1);
  assert.deepEqual([seen.stopped, ahead.has(stays)], [[fails, stays], false]);
  assert.deepEqual([ahead.adopt(all), await rows()], [undefined, []]);
});

test("Workers of code that was replaced meanwhile are ended, and one whose row cannot be written is not kept", async (t) => {
  const { ahead, store, endpoint, seen, rows, readied } = await rig(t);
  await readied();
  await store.endpoints.update(endpoint.id, { revision: "newer" } as Partial<Endpoint>);
  await ahead.adopt(all);
  assert.deepEqual([seen.stopped, seen.adopted, await rows()], [seen.started, [], []]);
  await readied("newer");
  await store.workers.insert({ ...ahead.find(seen.started[1]!)!, tokenHash: "taken" });
  await ahead.adopt(all);
  assert.deepEqual([seen.stopped, seen.adopted, seen.errors.length], [seen.started, [], 1]);
});

test("One whose endpoint is removed just while it comes ends, and nothing is wrong", async (t) => {
  const { ahead, store, endpoint, seen, rows, readied } = await rig(t);
  await readied();
  const insert = store.workers.insert.bind(store.workers);
  t.mock.method(store.workers, "insert", async (row: Worker) => {
    await store.endpoints.delete(endpoint.id);
    await insert(row);
  });
  await ahead.adopt(all);
  assert.deepEqual([seen.stopped, seen.adopted, await rows(), seen.errors], [seen.started, [], [], []]);
});

test("Whatever is asked for, an endpoint gets no more than it may have, all together have a bound, and one that is here gets none", async (t) => {
  const { ahead, store, endpoint, seen, is, wish } = await rig(t);
  const hostile = [wish(MANY), wish(Number.MAX_SAFE_INTEGER), wish(0), wish(MANY, "other"), wish(MANY, "")];
  for (const endpointId of ["", "no-such", "__proto__"]) hostile.push({ ...wish(MANY), endpointId });
  ahead.prepare(hostile).catch(() => {});
  while (seen.started.length < endpoint.workersMax) await turn();
  for (const settings of [{ workersMax: MANY }, { workersMax: MANY }]) {
    const more = newEndpoint(null, {
      name: `m-${seen.started.length}`,
      buildId: "build-1",
      ...settings,
    } as Partial<Endpoint>);
    await store.endpoints.insert(more);
    ahead.prepare([{ endpointId: more.id, revision: more.revision, workers: MANY }]).catch(() => {});
    while (seen.started.length < WORKERS_AHEAD_MAX) await turn();
  }
  for (let i = 0; i < 10; i++) await turn();
  assert.equal(seen.started.length, WORKERS_AHEAD_MAX);
  ahead.giveUp();
  is.mine = true;
  assert.equal(await ahead.prepare([wish(1)]), 0);
});
