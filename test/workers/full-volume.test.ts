import assert from "node:assert/strict";
import { test } from "node:test";
import type { MountedVolume } from "../../src/domain/volume.ts";
import type { Endpoint } from "../../src/store/store.ts";
import { type StartDeps, startWorker } from "../../src/workers/start-worker.ts";

const MODELS = { app: "shop", environment: "production", name: "models", paths: ["/models"] };

function start(volumes: readonly MountedVolume[], started: string[]): Promise<void> {
  const deps = {
    store: { workers: { insert: async () => {}, delete: async () => {} } },
    driver: { start: async ({ workerId }: { workerId: string }) => void started.push(workerId) },
    envOf: async () => ({}),
    isFull: ({ name }: MountedVolume) => name === "models",
    clock: () => 0,
  } as unknown as StartDeps;
  const prepared = { image: { volumes }, appName: "shop", environmentName: "production", gpuPreference: [] };
  return startWorker(deps, "w-1", { id: "ep-1" } as Endpoint, prepared as never, { beyondCapacity: false });
}

test("No worker that may write to a full volume is started; one that only reads it is", async () => {
  const started: string[] = [];
  await assert.rejects(start([{ ...MODELS, readOnly: false }], started), {
    code: "STORAGE_FULL",
    message: /The volume "models" holds more than its limit/,
  });
  assert.deepEqual(started, []);
  await start(
    [
      { ...MODELS, readOnly: true },
      { ...MODELS, name: "other", readOnly: false },
    ],
    started,
  );
  assert.deepEqual(started, ["w-1"]);
});
