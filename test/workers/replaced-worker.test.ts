/** Workers that start on code which is replaced before they are ready. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_MINE } from "../../src/domain/own-endpoints.ts";
import type { WorkerState } from "../../src/domain/worker.ts";
import type { WorkerDriver, WorkerExit } from "../../src/drivers/worker-driver.ts";
import { BootRecord } from "../../src/workers/boot-record.ts";
import { DecisionLog } from "../../src/workers/decision-log.ts";
import type { Images } from "../../src/workers/images.ts";
import { WorkerPool } from "../../src/workers/worker-pool.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";
import { openTestStore } from "../store/open-store.ts";

const EXIT = { code: 0, signal: null, reason: "exited with code 0" };

async function open(state: WorkerState) {
  const { store, close } = await openTestStore();
  const endpoint = newEndpoint(null, { name: "live-hello" });
  await store.endpoints.insert(endpoint);
  const worker = newWorker(endpoint.id, { state });
  await store.workers.insert(worker);
  const told: string[] = [];
  let exited: (exit: WorkerExit) => void = () => {};
  const gone = Promise.withResolvers<void>();
  new WorkerPool({
    decisions: new DecisionLog({ recentDecisions: () => [], decided: () => {} }),
    store,
    endpoints: store.endpoints,
    isMine: ALL_MINE,
    isLeaving: () => false,
    driver: {
      onExit: (listener: (exit: WorkerExit) => void) => {
        exited = listener;
      },
      stop: async () => {},
      capacity: async () => ({ vcpus: 1, memoryGb: 1, gpus: [] }),
    } as unknown as WorkerDriver,
    images: {} as Images,
    boots: new BootRecord(() => 0),
    envOf: async () => ({}),
    isFull: () => false,
    link: {
      drain: () => {},
      isConnected: () => false,
      expectPull: () => {},
      workerExited: async () => {},
      switchOver: () => {},
      sample: () => ({ workers: [] }),
    },
    broken: {
      tell: async (_worker, error) => {
        told.push(error.code);
      },
    },
    peersWait: () => false,
    wake: () => {},
    workerEnded: () => gone.resolve(),
    clock: () => 0,
    now: () => 0,
    log: () => {},
    onError: (error) => gone.reject(error),
  });
  const exit = async () => {
    exited({ workerId: worker.id, ...EXIT });
    await gone.promise;
    await close();
  };
  return { told, exit };
}

test("A worker that leaves because its code was replaced while it started counts as no failed start", async () => {
  const { told, exit } = await open("DRAINING");
  await exit();
  assert.deepEqual(told, []);
});

test("A worker that ends while it starts is a failed start", async () => {
  const { told, exit } = await open("STARTING");
  await exit();
  assert.deepEqual(told, ["BOOT_FAILED"]);
});
