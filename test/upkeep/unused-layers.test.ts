import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import tar from "tar-stream";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { LAYER_UNUSED_KEPT_MS } from "../../src/domain/limits.ts";
import type { Manifest } from "../../src/domain/manifest.ts";
import { LayerFolder } from "../../src/drivers/layers.ts";
import type { WorkerImage } from "../../src/drivers/worker-driver.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import { removeUnusedLayers } from "../../src/upkeep/unused-layers.ts";
import { Images } from "../../src/workers/images.ts";
import { newApp, newBuild, newEndpoint, newEnvironment, newWorker } from "../conformance/store.ts";

/** Store, artifacts and unpacked layers in one folder; the driver only unpacks. */
async function machine(t: TestContext) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-unused-"));
  const database = openPlatformDatabase(dir, "normal");
  const store = await openSqliteStore(database);
  const artifacts = await openDiskArtifactStore(path.join(dir, "artifacts"));
  const layers = new LayerFolder(path.join(dir, "layers"), artifacts);
  let now = Date.now();
  const driver = {
    prepare: async (image: WorkerImage) => {
      await layers.ensure(image.sourceLayer);
      if (image.dependencyLayer !== null) await layers.ensure(image.dependencyLayer);
    },
  };
  let settled = Promise.withResolvers<void>();
  const images = new Images({ store, driver, clock: () => now, now: () => now, settled: () => settled.resolve() });
  t.after(async () => {
    await store.close();
    database.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const unpackedIn = path.join(dir, "layers");
  return {
    store,
    artifacts,
    images,
    layer: async (text: string) => {
      const pack = tar.pack();
      pack.entry({ name: "src/a.py" }, text);
      pack.finalize();
      const bytes = gzipSync(await buffer(pack));
      const digest = createHash("sha256").update(bytes).digest("hex");
      await artifacts.put(digest, Readable.from([bytes]), 1e6);
      return digest;
    },
    prepare: async (endpoint: Parameters<Images["prepare"]>[0]) => {
      settled = Promise.withResolvers();
      images.prepare(endpoint);
      await settled.promise;
      assert.equal(images.state(endpoint).problem, "");
    },
    /** As if so much time had passed since anything was touched. */
    age: async (ms: number) => {
      now += ms;
      const old = new Date(Date.now() - ms);
      for (const digest of await artifacts.list()) {
        utimesSync(path.join(dir, "artifacts", digest.slice(0, 2), digest), old, old);
      }
      for (const name of existsSync(unpackedIn) ? readdirSync(unpackedIn) : []) {
        utimesSync(path.join(unpackedIn, name), old, old);
      }
    },
    unpacked: () => (existsSync(unpackedIn) ? readdirSync(unpackedIn).sort() : []),
    stored: async () => (await artifacts.list()).sort(),
    /** A platform that was started just now: it remembers no use. */
    sweep: (clock = () => Date.now(), isFirst = () => true) =>
      removeUnusedLayers({ store, artifacts, files: new LayerFolder(unpackedIn, artifacts), images, clock, isFirst }),
    leftover: (name: string) => {
      mkdirSync(path.join(unpackedIn, name), { recursive: true });
      writeFileSync(path.join(unpackedIn, name, "half"), "");
    },
  };
}

function manifest(name: string, sourceLayer: string, dependencyLayer: string | null): Manifest {
  const resource = { dependencyLayer, baseDependencies: [], pythonVersion: "3.11", handler: `handlers/${name}.py` };
  return {
    resources: { [name]: resource },
    routes: {},
    version: 1,
    svcVersion: "0",
    sourceLayer,
  } as unknown as Manifest;
}

const DAY = LAYER_UNUSED_KEPT_MS;

test("A layer that no kept build refers to goes a day after its last use, and one that was just planned does not", async (t) => {
  const m = await machine(t);
  const app = newApp();
  await m.store.apps.insert(app);
  const environment = newEnvironment(app.id);
  await m.store.environments.insert(environment);
  const [kept, planned, unused] = [await m.layer("kept"), await m.layer("planned"), await m.layer("unused")];
  await m.store.builds.insert(newBuild(environment.id, { id: "b1", manifest: manifest("hello", kept, null) }));
  await m.sweep();
  assert.deepEqual(await m.stored(), [kept, planned, unused].sort(), "all are new");
  await m.age(DAY + 60_000);
  assert.equal(await m.artifacts.has(planned), true);
  await m.sweep();
  assert.deepEqual(await m.stored(), [kept, planned].sort());
  await m.store.builds.delete("b1");
  await m.sweep();
  assert.deepEqual(await m.stored(), [planned]);
});

test("What arrived of an upload that broke off goes a day after its last byte", async (t) => {
  const m = await machine(t);
  const digest = "0".repeat(64);
  const broken = new PassThrough();
  broken.write("half");
  setImmediate(() => broken.destroy(new Error("connection lost")));
  await assert.rejects(m.artifacts.put(digest, broken, 1e6), /connection lost/);
  await m.sweep(() => Date.now() + DAY - 60_000);
  assert.notEqual(await m.artifacts.partialSize(digest), undefined);
  await m.sweep(() => Date.now() + DAY + 60_000);
  assert.equal(await m.artifacts.partialSize(digest), undefined);
});

test("An unpacked layer goes a day after the last worker of its build, and a rollback unpacks it again", async (t) => {
  const m = await machine(t);
  const app = newApp();
  await m.store.apps.insert(app);
  const environment = newEnvironment(app.id);
  await m.store.environments.insert(environment);
  const [first, second] = [await m.layer("1"), await m.layer("2")];
  for (const [id, layer] of [
    ["b1", first],
    ["b2", second],
  ] as const) {
    await m.store.builds.insert(newBuild(environment.id, { id, manifest: manifest("hello", layer, null) }));
  }
  const endpoint = newEndpoint(environment.id, { name: "hello", buildId: "b1" });
  await m.store.endpoints.insert(endpoint);
  await m.prepare(endpoint);
  const worker = newWorker(endpoint.id, { buildId: "b1", state: "DRAINING" });
  await m.store.workers.insert(worker);
  await m.store.endpoints.update(endpoint.id, { buildId: "b2", revision: "r2" });
  const after = (await m.store.endpoints.find(endpoint.id))!;
  await m.prepare(after);
  m.leftover(".unpack-killed");
  await m.age(DAY + 60_000);
  const later = () => Date.now();
  await m.sweep(later);
  assert.deepEqual(m.unpacked(), [first, second].sort(), "a worker of the earlier build drains still");
  await m.store.workers.delete(worker.id);
  await m.sweep(() => Date.now() + DAY + 120_000);
  assert.deepEqual(m.unpacked(), [second]);
  assert.equal(m.images.isPrepared(endpoint), false, "nobody starts a worker from files that are gone");
  assert.equal(m.images.isPrepared(after), true);
  await m.prepare(endpoint);
  assert.deepEqual(m.unpacked(), [first, second].sort());
});

test("A worker whose build nobody knows any more stops the removal of unpacked layers", async (t) => {
  const m = await machine(t);
  const digest = await m.layer("x");
  const endpoint = newEndpoint(null);
  await m.store.endpoints.insert(endpoint);
  await m.store.workers.insert(newWorker(endpoint.id, { buildId: "gone" }));
  m.leftover(digest);
  await m.age(DAY + 60_000);
  await m.sweep();
  assert.deepEqual(m.unpacked(), [digest]);
});

test("Nothing that a kept build, an endpoint or a worker needs is ever removed", async (t) => {
  const m = await machine(t);
  const app = newApp();
  await m.store.apps.insert(app);
  const environment = newEnvironment(app.id);
  await m.store.environments.insert(environment);
  const texts = ["a", "b", "c", "d", "e"];
  const step = fc.oneof(
    fc.record({ kind: fc.constant("deploy"), source: fc.nat(4), dependencies: fc.option(fc.nat(4)) }),
    fc.record({ kind: fc.constant("forget"), which: fc.nat(5) }),
    fc.record({ kind: fc.constant("worker") }),
    fc.record({ kind: fc.constant("exit"), which: fc.nat(3) }),
    fc.record({ kind: fc.constant("age"), days: fc.constantFrom(0.5, 2) }),
    fc.record({ kind: fc.constant("sweep") }),
  );
  let run = 0;
  let made = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      const name = `e${++run}`;
      let endpoint = newEndpoint(environment.id, { name });
      await m.store.endpoints.insert(endpoint);
      const builds = new Map<string, string[]>();
      const workers: { id: string; buildId: string }[] = [];
      for (const one of steps) {
        if (one.kind === "deploy") {
          const source = await m.layer(texts[one.source]!);
          const dependencies = one.dependencies === null ? null : await m.layer(texts[one.dependencies]!);
          const id = `${name}-${++made}`;
          const build = { id, createdAt: made, manifest: manifest(name, source, dependencies) };
          await m.store.builds.insert(newBuild(environment.id, build));
          builds.set(id, [source, dependencies ?? source]);
          await m.store.endpoints.update(endpoint.id, { buildId: id, revision: id });
          endpoint = (await m.store.endpoints.find(endpoint.id))!;
          await m.prepare(endpoint);
        } else if (one.kind === "forget") {
          const id = [...builds.keys()][one.which];
          const used = [endpoint.buildId, ...workers.map(({ buildId }) => buildId)];
          if (id === undefined || used.includes(id)) continue;
          builds.delete(id);
          await m.store.builds.delete(id);
        } else if (one.kind === "worker" && endpoint.buildId !== null) {
          const worker = newWorker(endpoint.id, { buildId: endpoint.buildId });
          workers.push(worker);
          await m.store.workers.insert(worker);
        } else if (one.kind === "exit") {
          const [gone] = workers.splice(one.which, 1);
          if (gone !== undefined) await m.store.workers.delete(gone.id);
        } else if (one.kind === "age") {
          await m.age(one.days * DAY);
        } else if (one.kind === "sweep") await m.sweep();
        const stored = await m.stored();
        for (const digest of [...builds.values()].flat()) assert.ok(stored.includes(digest), "a kept build's layer");
        const running = [endpoint.buildId, ...workers.map(({ buildId }) => buildId)];
        for (const id of running.filter((id) => id !== null)) {
          for (const digest of builds.get(id)!) assert.ok(m.unpacked().includes(digest), "a running build's layer");
        }
      }
      for (const { id } of workers) await m.store.workers.delete(id);
      for (const id of builds.keys()) await m.store.builds.delete(id);
      await m.store.endpoints.delete(endpoint.id);
    }),
    { numRuns: 25 },
  );
});

test("Of several platforms on a database each looks after its own disk, and one removes what is stored for all", async (t) => {
  const m = await machine(t);
  const unused = await m.layer("unused");
  m.leftover("of-nobody");
  await m.age(DAY + 60_000);
  await m.sweep(undefined, () => false);
  assert.deepEqual([m.unpacked(), await m.stored()], [[], [unused]]);
  await m.sweep();
  assert.deepEqual(await m.stored(), []);
});
