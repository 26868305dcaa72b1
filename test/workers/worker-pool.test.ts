/** The worker pool with a driver and clocks that the test holds; the store is the real one. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { SvcError } from "../../src/domain/errors.ts";
import { START_RETRY_MS } from "../../src/domain/limits.ts";
import type { WorkerDriver, WorkerExit, WorkerSpec } from "../../src/drivers/worker-driver.ts";
import type { Endpoint } from "../../src/store/store.ts";
import { BootRecord } from "../../src/workers/boot-record.ts";
import { DecisionLog } from "../../src/workers/decision-log.ts";
import type { Images } from "../../src/workers/images.ts";
import { WorkerPool } from "../../src/workers/worker-pool.ts";
import { newApp, newBuild, newEndpoint, newEnvironment, newWorker } from "../conformance/store.ts";
import { openTestStore } from "../store/open-store.ts";

const START = { start: 1, desired: 1, urgent: true, stop: [], drain: [], reason: "1 waiting" };

class FakeDriver {
  running: string[] | undefined = [];
  readonly started: string[] = [];
  readonly stopped: string[] = [];
  readonly retired: string[] = [];
  refusal: SvcError | undefined;
  exit: (exit: WorkerExit) => void = () => {};

  async start({ workerId }: WorkerSpec): Promise<void> {
    if (this.refusal !== undefined) throw this.refusal;
    this.started.push(workerId);
    this.running?.push(workerId);
  }

  async stop(workerId: string): Promise<void> {
    this.stopped.push(workerId);
  }

  async list(): Promise<string[] | undefined> {
    return this.running && [...this.running];
  }

  async capacity() {
    return {
      hardware: { vcpus: 8, memoryGb: 8 },
      vcpus: 8,
      memoryGb: 8,
      gpus: [],
      emulatesGpu: false,
      shares: new Map(),
    };
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.exit = listener;
  }

  async retire(_endpointId: string, revision: string): Promise<void> {
    this.retired.push(revision);
  }
}

async function pool(t: TestContext) {
  const { store, close } = await openTestStore();
  t.after(close);
  const endpoint = newEndpoint(null, { buildId: "build-1" } as Partial<Endpoint>);
  await store.endpoints.insert(endpoint);
  const driver = new FakeDriver();
  const clock = { now: 1_000 };
  const boots = new BootRecord(() => clock.now);
  const seen = {
    woken: [] as string[],
    /** Endpoints that another platform has. */
    others: new Set<string>(),
    exited: [] as unknown[][],
    failed: [] as string[],
    errors: [] as unknown[],
  };
  const prepared = {
    image: { buildId: "build-1", endpointId: endpoint.id, volumes: [] },
    appName: "",
    environmentName: "",
    gpuPreference: [],
  };
  const made = new WorkerPool({
    decisions: new DecisionLog({ recentDecisions: () => [], decided: () => {} }),
    store,
    endpoints: store.endpoints,
    isMine: (id) => !seen.others.has(id),
    isLeaving: () => false,
    driver: driver as unknown as WorkerDriver,
    images: {
      of: () => prepared,
      isPrepared: () => true,
      prepare: () => {},
      state: () => ({ progress: [], problem: "" }),
    } as unknown as Images,
    boots,
    envOf: async () => ({}),
    isFull: () => false,
    link: {
      drain: () => {},
      isConnected: () => false,
      expectPull: () => {},
      workerExited: async (...exited) => {
        seen.exited.push(exited);
      },
      switchOver: () => {},
      sample: () => ({ workers: [] }),
    },
    broken: {
      tell: async ({ id }, error) => {
        seen.failed.push(`${error.code} ${id}`);
      },
    },
    peersWait: () => false,
    wake: (id) => seen.woken.push(id),
    workerEnded: (id) => seen.woken.push(id),
    clock: () => 0,
    now: () => clock.now,
    log: () => {},
    onError: (error) => seen.errors.push(error),
  });
  const rows = async () => (await store.workers.list()).map(({ id }) => id);
  const settled = async (isSo: () => Promise<boolean> | boolean) => {
    while (!(await isSo())) await turn();
  };
  return { pool: made, store, endpoint, driver, clock, boots, seen, rows, settled };
}

test("After a start of the platform rows without a worker are counted out, and workers without a row are stopped", async (t) => {
  const { pool: one, store, endpoint, driver, seen, rows } = await pool(t);
  for (const id of ["w-kept", "w-ghost"]) await store.workers.insert({ ...newWorker(endpoint.id), id, tokenHash: id });
  driver.running = ["w-kept", "w-orphan"];
  await one.recover();
  assert.deepEqual([await rows(), driver.stopped], [["w-kept"], ["w-orphan"]]);
  assert.deepEqual(seen.exited, [["w-ghost", "it did not survive"]]);
  assert.deepEqual(seen.woken, [endpoint.id]);
});

test("Rows of workers whose endpoints another platform has are that one's; workers of theirs that run here are stopped", async (t) => {
  const { pool: one, store, endpoint, driver, seen, rows } = await pool(t);
  const other = newEndpoint(null, { name: "other", buildId: "build-1" } as Partial<Endpoint>);
  await store.endpoints.insert(other);
  const workers = { "w-mine": endpoint.id, "w-there": other.id, "w-given": other.id };
  for (const [id, endpointId] of Object.entries(workers))
    await store.workers.insert({ ...newWorker(endpointId), id, tokenHash: id });
  seen.others.add(other.id);
  driver.running = ["w-given"];
  await one.recover();
  assert.deepEqual([(await rows()).sort(), driver.stopped], [["w-given", "w-there"], ["w-given"]]);
  assert.equal(one.mayStart(other), false);

  seen.others = new Set([endpoint.id]);
  driver.running = [];
  await one.recover();
  assert.deepEqual(await rows(), [], "their platform is gone, and they with it");
});

test("While it is not known who runs nobody is counted out or stopped; that is made up for when it is", async (t) => {
  const { pool: one, store, endpoint, driver, rows, settled } = await pool(t);
  await store.workers.insert({ ...newWorker(endpoint.id), id: "w-1" });
  driver.running = undefined;
  await one.recover();
  assert.deepEqual([await rows(), driver.stopped], [["w-1"], []]);
  driver.running = [];
  one.driverAvailable();
  await settled(async () => (await rows()).length === 0);
});

test("A start that is refused leaves no row, says why, and is tried again after a pause that no clock set forward or back changes", async (t) => {
  const { pool: one, endpoint, driver, clock, rows } = await pool(t);
  driver.refusal = new SvcError("INVALID_SETTING", "A secret is missing.", { help: "Set it." });
  await one.apply(endpoint, START);
  assert.deepEqual([await rows(), one.mayStart(endpoint)], [[], false]);
  assert.deepEqual((await one.health(endpoint.id)).reason, "A secret is missing. Set it.");
  assert.equal((await one.counts(endpoint.id)).throttled, 1);
  clock.now += START_RETRY_MS;
  assert.equal(one.mayStart(endpoint), true);
  driver.refusal = undefined;
  await one.apply(endpoint, START);
  assert.deepEqual([(await rows()).length, (await one.health(endpoint.id)).reason], [1, ""]);
});

test("Starts that are paused because the launcher is away go on as soon as it is back", async (t) => {
  const { pool: one, endpoint, driver, seen } = await pool(t);
  driver.refusal = new SvcError("STARTS_PAUSED", "The launcher ended; another one is being started.");
  await one.apply(endpoint, START);
  assert.equal(one.mayStart(endpoint), false);
  assert.match((await one.health(endpoint.id)).reason, /launcher ended/);
  one.driverAvailable();
  assert.deepEqual([one.mayStart(endpoint), seen.woken], [true, [endpoint.id]]);
});

test("A worker that ends while it starts counts against the code; one that the machine could not start does not", async (t) => {
  const { pool: one, endpoint, driver, boots, seen, rows, settled } = await pool(t);
  await one.recover();
  await one.apply(endpoint, START);
  const [byMachine] = driver.started;
  driver.exit({
    workerId: byMachine!,
    code: null,
    signal: null,
    reason: "its launcher was killed by SIGKILL",
    cause: "machine",
  });
  await settled(async () => (await rows()).length === 0);
  assert.deepEqual([boots.mayStart(endpoint), seen.failed], [true, []]);
  assert.match(
    (await one.health(endpoint.id)).reason,
    /No worker could be started: its launcher was killed by SIGKILL/,
  );
  assert.deepEqual(seen.exited.at(-1), [byMachine, "its launcher was killed by SIGKILL", "machine"]);
  one.driverAvailable();
  await one.apply(endpoint, START);
  driver.exit({ workerId: driver.started[1]!, code: 1, signal: null, reason: "exited with code 1" });
  await settled(async () => (await rows()).length === 0);
  assert.deepEqual(boots.mayStart(endpoint), false);
  assert.deepEqual(seen.failed, [`BOOT_FAILED ${driver.started[1]}`]);
});

test("A revision that was replaced leaves nothing behind: neither its failures nor its proof", async (t) => {
  const { pool: one, endpoint, driver, boots } = await pool(t);
  await one.recover();
  const second = { ...endpoint, revision: "second" };
  one.endpointChanged(second);
  assert.equal(one.mustProve(second), true);
  boots.failed(second, "it failed");
  one.endpointChanged({ ...endpoint, revision: "third" });
  assert.deepEqual(driver.retired, [endpoint.revision, "second"]);
  assert.deepEqual([one.mustProve(second), boots.reason(second)], [false, ""]);
});

test("What a revision must show or lacks says nothing of an endpoint with the same one, as of another environment", async (t) => {
  const { pool: one, store, endpoint, boots } = await pool(t);
  await one.recover();
  const there = { ...endpoint, id: "there" };
  await store.endpoints.insert(there);
  one.endpointChanged({ ...there, revision: "first" });
  one.endpointChanged(there);
  assert.deepEqual([one.mustProve(there), one.mustProve(endpoint)], [true, false]);
  boots.failed(there, "it failed");
  assert.equal((await one.health(endpoint.id)).reason, "");
});

test("A revision that a worker runs already, as after a rollback of a failed deploy, has shown that it starts", async (t) => {
  const { pool: one, store, endpoint, settled } = await pool(t);
  await one.recover();
  await store.workers.insert(newWorker(endpoint.id, { revision: endpoint.revision, state: "READY" }));
  one.endpointChanged({ ...endpoint, revision: "broken" });
  one.endpointChanged(endpoint);
  assert.equal(one.mustProve(endpoint), true, "as long as nobody has looked");
  await settled(() => !one.mustProve(endpoint));
  assert.equal((await one.health(endpoint.id)).state, "READY");
});

test("After a start of the platform an endpoint of a build that never showed that it runs must show it", async (t) => {
  for (const [state, mustProve] of [
    ["pending", true],
    ["failed", true],
    ["ready", false],
    ["unknown", false],
  ] as const) {
    const { pool: one, store } = await pool(t);
    const app = newApp();
    await store.apps.insert(app);
    const environment = newEnvironment(app.id);
    await store.environments.insert(environment);
    const build = newBuild(environment.id, { verdict: { state, reason: "", at: null } });
    await store.builds.insert(build);
    await store.environments.setBuild(environment.id, build.id);
    const endpoint = newEndpoint(environment.id, { buildId: build.id, revision: state });
    await store.endpoints.insert(endpoint);
    await one.recover();
    assert.equal(one.mustProve(endpoint), mustProve, state);
  }
});

test("Before an endpoint goes to another platform its workers are told to end; others run on", async (t) => {
  const { pool: one, store, endpoint, driver } = await pool(t);
  const stays = newEndpoint(null, { name: "stays", buildId: "build-1" } as Partial<Endpoint>);
  await store.endpoints.insert(stays);
  const workers = { "w-goes": endpoint.id, "w-stays": stays.id };
  for (const [id, endpointId] of Object.entries(workers))
    await store.workers.insert({ ...newWorker(endpointId), id, tokenHash: id });
  driver.running = ["w-goes", "w-stays"];
  assert.deepEqual(await one.drain((id) => id === endpoint.id), [endpoint.id]);
  assert.deepEqual(driver.stopped, ["w-goes"]);
  assert.equal((await store.workers.find("w-goes"))?.state, "DRAINING");
});

test("stopAll waits for the workers, not beyond the grace, and not when it is told to hurry", async (t) => {
  const { pool: one, driver, clock } = await pool(t);
  driver.running = ["w-1"];
  const waiting = one.stopAll(1_000, new AbortController().signal);
  await turn();
  clock.now += 1_000;
  await waiting;
  const hurry = new AbortController();
  const hurried = one.stopAll(1_000_000, hurry.signal);
  hurry.abort();
  await hurried;
  driver.running = undefined;
  await one.stopAll(1_000_000, new AbortController().signal);
});
