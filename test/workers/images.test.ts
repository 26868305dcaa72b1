import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkerImage } from "../../src/drivers/worker-driver.ts";
import type { Endpoint, Store } from "../../src/store/store.ts";
import { Images } from "../../src/workers/images.ts";

const PAUSE_MS = 10_000;

test("A preparation that failed is tried again after a pause, also when the clock was set back meanwhile", async () => {
  const clock = { now: 0, time: 5_000_000 };
  let tries = 0;
  let settled = Promise.withResolvers<void>();
  const images = new Images({
    store: { builds: { find: async () => undefined } } as unknown as Store,
    driver: { prepare: async (_image: WorkerImage) => {} },
    clock: () => clock.time,
    now: () => clock.now,
    settled: () => {
      tries += 1;
      settled.resolve();
    },
  });
  const endpoint = { id: "ep-1", revision: "r1", buildId: "gone", name: "hello" } as Endpoint;
  images.prepare(endpoint);
  await settled.promise;
  assert.match(images.state(endpoint).problem, /does not declare it/);
  images.prepare(endpoint);
  assert.equal(tries, 1);
  clock.time = 0;
  clock.now = PAUSE_MS;
  settled = Promise.withResolvers();
  images.prepare(endpoint);
  await settled.promise;
  assert.equal(tries, 2);
});

test("Workers of a removed environment that drain have the volume that they had", async () => {
  const resource = { dependencyLayer: null, baseDependencies: [], pythonVersion: "3.11", handler: "handlers/hello.py" };
  const manifest = { sourceLayer: "s", resources: { hello: resource } };
  const images = new Images({
    store: {
      builds: { find: async () => ({ id: "b", environmentId: "env-1", manifest }) },
      environments: { find: async () => ({ id: "env-1", appId: "app-1", name: "production~env-1" }) },
      apps: { find: async () => ({ id: "app-1", name: "shop~app-1" }) },
    } as unknown as Store,
    driver: { prepare: async (_image: WorkerImage) => {} },
    clock: () => 0,
    now: () => 0,
    settled: () => {},
  });
  const endpoint = {
    id: "ep-1",
    revision: "r1",
    buildId: "b",
    name: "hello",
    networkVolumeId: "models,data:/data:ro",
  } as Endpoint;
  const { image } = await images.describe(endpoint);
  const place = { app: "shop", environment: "production" };
  assert.deepEqual(image.volumes, [
    { ...place, name: "models", paths: ["/volumes/models", "/runpod-volume"], readOnly: false },
    { ...place, name: "data", paths: ["/data"], readOnly: true },
  ]);
  assert.deepEqual(image.cache, { ...place, name: "svc-cache" });
});

test("An endpoint of no environment has the network volumes that it names: the first where images look, others by name", async () => {
  const images = new Images({
    store: {} as Store,
    driver: { prepare: async (_image: WorkerImage) => {} },
    clock: () => 0,
    now: () => 0,
    settled: () => {},
  });
  const settings = { environmentId: null, buildId: null, networkVolumeId: "models:50GB,data:/volumes/data" };
  const { image } = await images.describe({ id: "ep-1", name: "words", ...settings } as Endpoint);
  const place = { app: "network-volumes", environment: "shared", readOnly: false };
  assert.deepEqual(image.volumes, [
    { ...place, name: "models", paths: ["/volumes/models", "/runpod-volume"] },
    { ...place, name: "data", paths: ["/volumes/data"] },
  ]);
});

test("A build with many endpoints is read once for all of them", async () => {
  const resource = { dependencyLayer: null, baseDependencies: [], pythonVersion: "3.11", handler: "handlers/a.py" };
  const names = Array.from({ length: 100 }, (_, n) => `e${n}`);
  const resources = Object.fromEntries(names.map((name) => [name, resource]));
  let reads = 0;
  const find = async () => {
    reads += 1;
    return { id: "b", environmentId: "env-1", manifest: { sourceLayer: "s", resources } };
  };
  const images = new Images({
    store: {
      builds: { find },
      environments: { find: async () => undefined },
    } as unknown as Store,
    driver: { prepare: async (_image: WorkerImage) => {} },
    clock: () => 0,
    now: () => 0,
    settled: () => {},
  });
  const endpoints = names.map(
    (name) => ({ id: name, revision: "r", buildId: "b", name, networkVolumeId: "" }) as Endpoint,
  );
  await Promise.all(endpoints.map((endpoint) => images.describe(endpoint)));
  assert.equal(reads, 1);
});
