/** What every implementation of the store must do. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { CONTAINER_DEFAULT } from "../../src/domain/container.ts";
import { defaultSettings } from "../../src/domain/endpoint.ts";
import { SvcError } from "../../src/domain/errors.ts";
import type { Manifest } from "../../src/domain/manifest.ts";
import {
  type ApiKey,
  type App,
  BRIEF_FIELDS,
  type Build,
  type Endpoint,
  type Environment,
  type RegistryAuth,
  type Store,
  type StoreChange,
  type Template,
  type Worker,
} from "../../src/store/store.ts";
import { hosts } from "./store-hosts.ts";

export interface StoreUnderTest {
  store: Store;
  /** Closes and opens again on the same data. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

let names = 0;
const unique = (prefix: string) => `${prefix}-${++names}`;
const NOW = 1_700_000_000_000;

export function newApp(): App {
  const name = unique("app");
  return { id: `id-${name}`, name, createdAt: NOW };
}

export function newEnvironment(appId: string, name = "production"): Environment {
  return { id: unique("env"), appId, name, createdAt: NOW, buildId: null };
}

export function newEndpoint(environmentId: string | null, changes: Partial<Endpoint> = {}): Endpoint {
  return {
    ...defaultSettings("queue"),
    id: unique("endpoint"),
    name: unique("hello"),
    kind: "queue",
    environmentId,
    buildId: null,
    templateId: "default",
    env: { GREETING: "hi", snake_case: "kept" },
    schedule: "",
    revision: "r1",
    reason: "",
    createdAt: NOW,
    updatedAt: NOW,
    ...changes,
  };
}

export function newWorker(endpointId: string, changes: Partial<Worker> = {}): Worker {
  return {
    id: unique("w"),
    endpointId,
    buildId: "b1",
    revision: "r1",
    state: "STARTING",
    tokenHash: unique("hash"),
    createdAt: NOW,
    readyAt: null,
    reason: "",
    ...changes,
  };
}

export function newBuild(environmentId: string, changes: Partial<Build> = {}): Build {
  return {
    id: unique("build"),
    environmentId,
    manifest: MANIFEST,
    env: {},
    createdAt: NOW,
    message: "",
    gitCommit: "",
    keyName: "",
    verdict: { state: "pending", reason: "", at: null },
    ...changes,
  };
}

export function newKey(changes: Partial<ApiKey> = {}): ApiKey {
  return {
    id: unique("key"),
    name: "ci",
    prefix: "svc_abcdef",
    hash: unique("keyhash"),
    scopes: ["deploy", "invoke"],
    createdAt: NOW,
    expiresAt: null,
    environmentId: null,
    endpointId: null,
    lastUsedAt: null,
    ...changes,
  };
}

const MANIFEST = {
  resources: {},
  routes: { "my-api": { "GET /some_path": "fn" } },
  version: 1,
  svcVersion: "0.1.0",
  sourceLayer: "a".repeat(64),
} satisfies Manifest;

const isConflict = (error: unknown) => error instanceof SvcError && error.code === "CONFLICT";

export function storeConformance(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`${name}: the store`, () => {
    let under: StoreUnderTest;
    const store = () => under.store;
    before(async () => {
      under = await open();
    });
    after(() => under.close());

    async function environment(): Promise<Environment> {
      const app = newApp();
      await store().apps.insert(app);
      const made = newEnvironment(app.id);
      await store().environments.insert(made);
      return made;
    }

    appsAndBuilds(store, environment);
    endpointsAndWorkers(store, environment);
    keys(store);
    templates(store);
    registryAuths(store);
    hosts(store);
    transactions(store);

    test("everything is there after the platform was restarted", async () => {
      const env = await environment();
      const endpoint = newEndpoint(env.id);
      const worker = newWorker(endpoint.id);
      const key = newKey();
      await store().endpoints.insert(endpoint);
      await store().workers.insert(worker);
      await store().keys.insert(key);
      await under.reopen();
      assert.deepEqual(await store().environments.find(env.id), env);
      assert.deepEqual(await store().endpoints.find(endpoint.id), endpoint);
      assert.deepEqual(await store().workers.find(worker.id), worker);
      assert.deepEqual(await store().keys.findByHash(key.hash), key);
    });
  });
}

function appsAndBuilds(store: () => Store, environment: () => Promise<Environment>): void {
  test("an app's name is unique", async () => {
    const app = newApp();
    await store().apps.insert(app);
    assert.deepEqual(await store().apps.findByName(app.name), app);
    assert.deepEqual(await store().apps.find(app.id), app);
    assert.ok((await store().apps.list()).some((found) => found.id === app.id));
    await assert.rejects(store().apps.insert({ ...app, id: unique("id") }), isConflict);
    assert.equal(await store().apps.findByName("nobody"), undefined);
  });

  test("an environment's name is unique within its app only", async () => {
    const [first, second] = [newApp(), newApp()];
    await store().apps.insert(first);
    await store().apps.insert(second);
    const staging = newEnvironment(first.id, "staging");
    await store().environments.insert(staging);
    await store().environments.insert(newEnvironment(first.id, "dev"));
    await store().environments.insert(newEnvironment(second.id, "staging"));
    await assert.rejects(store().environments.insert(newEnvironment(first.id, "staging")), isConflict);
    const found = await store().environments.listByApp(first.id);
    assert.deepEqual(
      found.map((env) => env.name),
      ["dev", "staging"],
    );
    assert.deepEqual(await store().environments.find(staging.id), staging);
  });

  test("a build keeps its manifest; the newest is listed first", async () => {
    const env = await environment();
    const variables = { "my-api": { MODE: "fast", TOKEN: { secret: "token" }, snake_case: "kept" } };
    const origin = { message: "faster", gitCommit: "abcdef0-dirty", keyName: "ci" };
    const old = newBuild(env.id, { env: variables, ...origin });
    const recent = newBuild(env.id, { createdAt: NOW + 1 });
    await store().builds.insert(old);
    await store().builds.insert(recent);
    assert.deepEqual(await store().builds.find(old.id), old);
    assert.deepEqual(await store().builds.listByEnvironment(env.id), [recent, old]);
    await store().environments.setBuild(env.id, recent.id);
    assert.equal((await store().environments.find(env.id))?.buildId, recent.id);
  });

  test("a live build is unproven until it was ready; how it fared is kept", async () => {
    const env = await environment();
    const [earlier, live] = [newBuild(env.id), newBuild(env.id, { createdAt: NOW + 1 })];
    for (const build of [earlier, live]) await store().builds.insert(build);
    await store().environments.setBuild(env.id, live.id);
    const unproven = async () =>
      (await store().builds.listUnproven()).filter(({ environmentId }) => environmentId === env.id);
    const stopped = newEndpoint(env.id, { buildId: live.id, workersMax: 0 });
    await store().endpoints.insert(stopped);
    await store().endpoints.insert(newEndpoint(env.id, { buildId: earlier.id, workersMax: 1 }));
    const { id, verdict } = live;
    assert.deepEqual(await unproven(), [{ id, environmentId: env.id, mayRun: false, verdict }]);
    await store().endpoints.update(stopped.id, { workersMax: 1 });
    const failed = { state: "failed", reason: "hello: no module numpy", at: NOW + 2 } as const;
    await store().builds.judge(live.id, failed);
    assert.deepEqual(await unproven(), [{ id, environmentId: env.id, mayRun: true, verdict: failed }]);
    assert.deepEqual(await store().builds.find(live.id), { ...live, verdict: failed });
    await store().builds.judge(live.id, { state: "ready", reason: "", at: NOW + 3 });
    assert.deepEqual(await unproven(), []);
  });

  test("an app goes with its environments and builds, but not while it has endpoints", async () => {
    const env = await environment();
    await store().builds.insert(newBuild(env.id));
    const endpoint = newEndpoint(env.id);
    await store().endpoints.insert(endpoint);
    await assert.rejects(store().environments.delete(env.id), isConflict);
    await assert.rejects(store().apps.delete(env.appId), isConflict);
    assert.deepEqual(await store().environments.find(env.id), env);
    await store().endpoints.delete(endpoint.id);
    await store().apps.delete(env.appId);
    assert.equal(await store().environments.find(env.id), undefined);
    assert.deepEqual(await store().builds.listByEnvironment(env.id), []);
  });
}

function endpointsAndWorkers(store: () => Store, environment: () => Promise<Environment>): void {
  test("an endpoint keeps every field, and its name is unique in its environment", async () => {
    const [env, other] = [await environment(), await environment()];
    const endpoint = newEndpoint(env.id, { executionTimeoutMs: 604_800_000, reason: "no room" });
    await store().endpoints.insert(endpoint);
    assert.deepEqual(await store().endpoints.find(endpoint.id), endpoint);
    const brief = (await store().endpoints.listBriefly()).find(({ id }) => id === endpoint.id);
    assert.deepEqual({ ...brief }, Object.fromEntries(BRIEF_FIELDS.map((field) => [field, endpoint[field]])));
    await store().endpoints.insert(newEndpoint(other.id, { name: endpoint.name }));
    await assert.rejects(store().endpoints.insert(newEndpoint(env.id, { name: endpoint.name })), isConflict);
    const loose = newEndpoint(null);
    await store().endpoints.insert(loose);
    assert.deepEqual(await store().endpoints.find(loose.id), loose);
    assert.deepEqual(
      (await store().endpoints.listByEnvironment(env.id)).map(({ id }) => id),
      [endpoint.id],
    );
    const all = (await store().endpoints.list()).map(({ id }) => id);
    assert.ok(all.includes(endpoint.id) && all.includes(loose.id));
  });

  test("an update replaces the given fields and keeps the rest", async () => {
    const endpoint = newEndpoint((await environment()).id);
    await store().endpoints.insert(endpoint);
    assert.equal(await store().endpoints.update(endpoint.id, { workersMax: 9, env: { A: "1" } }), true);
    assert.deepEqual(await store().endpoints.find(endpoint.id), { ...endpoint, workersMax: 9, env: { A: "1" } });
    assert.equal(await store().endpoints.update(endpoint.id, {}), true);
    assert.equal(await store().endpoints.update("unknown", { workersMax: 9 }), false);
    assert.equal(await store().endpoints.update("unknown", {}), false);
  });

  test("a worker is found by its token and goes with its endpoint", async () => {
    const endpoint = newEndpoint((await environment()).id);
    await store().endpoints.insert(endpoint);
    const worker = newWorker(endpoint.id);
    await store().workers.insert(worker);
    assert.deepEqual(await store().workers.findByToken(worker.tokenHash), worker);
    assert.deepEqual(await store().workers.listByEndpoint(endpoint.id), [worker]);
    assert.equal(await store().workers.update(worker.id, { state: "READY", readyAt: NOW + 5 }), true);
    assert.deepEqual(await store().workers.find(worker.id), { ...worker, state: "READY", readyAt: NOW + 5 });
    assert.equal(await store().workers.update("unknown", { state: "READY" }), false);
    await store().endpoints.delete(endpoint.id);
    assert.equal(await store().workers.find(worker.id), undefined);
    await assert.rejects(store().workers.insert(newWorker(endpoint.id)), isConflict);
    assert.ok(!(await store().workers.list()).some(({ id }) => id === worker.id));
  });
}

function keys(store: () => Store): void {
  test("a key is found by its hash until it is revoked", async () => {
    const key = newKey({ expiresAt: NOW + 1000 });
    await store().keys.insert(key);
    assert.deepEqual(await store().keys.findByHash(key.hash), key);
    assert.ok((await store().keys.list()).some(({ id }) => id === key.id));
    await assert.rejects(store().keys.insert({ ...newKey(), hash: key.hash }), isConflict);
    await store().keys.delete(key.id);
    assert.equal(await store().keys.findByHash(key.hash), undefined);
  });

  test("a key has so many sessions of the console at most, none that is expired, and none once it is revoked", async () => {
    const [key, other] = [newKey(), newKey()];
    for (const each of [key, other]) await store().keys.insert(each);
    const sessions = store().consoleSessions;
    const session = (createdAt: number, keyId = key.id, lifetime = 100) => {
      const id = unique("session");
      return { id, hash: `hash of ${id}`, keyId, createdAt, expiresAt: createdAt + lifetime };
    };
    const isThere = async ({ hash }: { hash: string }) => (await sessions.findByHash(hash)) !== undefined;
    const [foreign, expired] = [session(NOW, other.id), session(NOW, other.id, 2)];
    const own = [1, 2, 3].map((at) => session(NOW + at));
    for (const each of [foreign, expired, ...own]) await sessions.insert(each, 2);
    const known = await Promise.all([foreign, expired, ...own].map(isThere));
    assert.deepEqual(known, [true, false, false, true, true]);
    assert.deepEqual(await sessions.findByHash(own[1]!.hash), own[1]);
    await sessions.delete(own[1]!);
    assert.equal(await isThere(own[1]!), false);
    await store().keys.delete(key.id);
    assert.deepEqual(await Promise.all([own[2]!, foreign].map(isThere)), [false, true]);
  });
}

function templates(store: () => Store): void {
  test("a template keeps every field, its name is unique, and saving it again replaces it", async () => {
    const template = (): Template => ({
      id: unique("template"),
      name: unique("torch"),
      imageName: "registry.example/torch:2",
      env: { snake_case: "kept", MODE: "fast" },
      container: { ...CONTAINER_DEFAULT, dockerArgs: "python -u handler.py", containerDiskInGb: 10 },
      createdAt: NOW,
      updatedAt: NOW,
    });
    const [first, second] = [template(), template()];
    await store().templates.save(first);
    await store().templates.save(second);
    await assert.rejects(store().templates.save({ ...template(), name: first.name }), isConflict);
    await assert.rejects(store().templates.save({ ...second, name: first.name }), isConflict);
    const changed = { ...first, imageName: "other", env: {}, updatedAt: NOW + 1 };
    await store().templates.save({ ...changed, createdAt: NOW + 1 });
    assert.deepEqual(await store().templates.find(first.id), changed);
    const listed = (await store().templates.list()).filter(({ id }) => id === first.id || id === second.id);
    assert.deepEqual(listed, [changed, second]);
    assert.equal(await store().templates.delete(first.id), true);
    assert.equal(await store().templates.delete(first.id), false);
    assert.equal(await store().templates.find(first.id), undefined);
  });
}

function registryAuths(store: () => Store): void {
  test("registry credentials keep every field, their name is unique, and saving them again replaces them", async () => {
    const auth = (): RegistryAuth => ({
      id: unique("auth"),
      name: unique("hub"),
      sealed: "v1.a.b.c",
      createdAt: NOW,
      updatedAt: NOW,
    });
    const [first, second] = [auth(), auth()];
    await store().registryAuths.save(first);
    await store().registryAuths.save(second);
    await assert.rejects(store().registryAuths.save({ ...auth(), name: first.name }), isConflict);
    const changed = { ...first, sealed: "v1.d.e.f", updatedAt: NOW + 1 };
    await store().registryAuths.save({ ...changed, createdAt: NOW + 1 });
    assert.deepEqual(await store().registryAuths.find(first.id), changed);
    const listed = (await store().registryAuths.list()).filter(({ id }) => id === first.id || id === second.id);
    assert.deepEqual(listed, [changed, second]);
    assert.deepEqual(
      [await store().registryAuths.delete(first.id), await store().registryAuths.delete(first.id)],
      [true, false],
    );
  });

  test("what is said of a network volume is kept until it is deleted", async () => {
    const volume = { id: unique("models"), size: 50, dataCenterId: "EU-RO-1", createdAt: NOW };
    await store().networkVolumes.save(volume);
    await store().networkVolumes.save({ ...volume, size: 80, createdAt: NOW + 1 });
    const mine = async () => (await store().networkVolumes.list()).filter(({ id }) => id === volume.id);
    assert.deepEqual(await mine(), [{ ...volume, size: 80 }]);
    await store().networkVolumes.delete(volume.id);
    assert.deepEqual(await mine(), []);
  });

  test("what a template says of an endpoint's container is kept with the endpoint", async () => {
    const container = { entrypoint: ["tini", "--"], command: ["python", "-u"], registryAuthId: "a" };
    const endpoint = { ...newEndpoint(null), container };
    await store().endpoints.insert(endpoint);
    assert.deepEqual(await store().endpoints.find(endpoint.id), endpoint);
    await store().endpoints.update(endpoint.id, { container: { ...container, command: [] } });
    assert.deepEqual((await store().endpoints.find(endpoint.id))?.container, { ...container, command: [] });
    await store().endpoints.update(endpoint.id, { workersMax: 1 });
    assert.deepEqual((await store().endpoints.find(endpoint.id))?.container, { ...container, command: [] });
    await store().endpoints.update(endpoint.id, { container: undefined });
    assert.equal((await store().endpoints.find(endpoint.id))?.container, undefined);
  });
}

function transactions(store: () => Store): void {
  test("a transaction writes all or nothing, and its changes are told only after the commit", async () => {
    const heard: StoreChange[] = [];
    store().onChange((change) => heard.push(change));
    const [kept, dropped] = [newEndpoint(null), newEndpoint(null)];
    await assert.rejects(
      store().transaction(async (inner) => {
        await inner.endpoints.insert(dropped);
        assert.deepEqual(await inner.endpoints.find(dropped.id), dropped);
        throw new Error("stop");
      }),
      /stop/,
    );
    assert.equal(await store().endpoints.find(dropped.id), undefined);
    assert.deepEqual(heard, []);
    const result = await store().transaction(async (inner) => {
      await inner.endpoints.insert(kept);
      await inner.transaction((nested) => nested.endpoints.update(kept.id, { reason: "x" }));
      assert.deepEqual(heard, []);
      return "done";
    });
    assert.equal(result, "done");
    assert.equal((await store().endpoints.find(kept.id))?.reason, "x");
    assert.deepEqual(heard, [
      { table: "endpoints", id: kept.id, endpoint: kept },
      { table: "endpoints", id: kept.id, endpoint: { ...kept, reason: "x" } },
    ]);
  });

  test("transactions and single writes at the same time do not mix", async () => {
    const endpoint = newEndpoint(null, { scalerValue: 0 });
    await store().endpoints.insert(endpoint);
    const outside = newApp();
    const add = (fails: boolean) =>
      store().transaction(async (inner) => {
        const now = (await inner.endpoints.find(endpoint.id))!.scalerValue;
        await inner.endpoints.update(endpoint.id, { scalerValue: now + 1 });
        if (fails) throw new Error("undo");
      });
    const all = await Promise.allSettled([add(false), add(true), store().apps.insert(outside), add(false), add(true)]);
    assert.deepEqual(
      all.map(({ status }) => status),
      ["fulfilled", "rejected", "fulfilled", "fulfilled", "rejected"],
    );
    assert.equal((await store().endpoints.find(endpoint.id))?.scalerValue, 2);
    assert.deepEqual(await store().apps.findByName(outside.name), outside);
  });

  test("every change of endpoints, workers and keys is told with its id, and of an endpoint as it is now", async () => {
    const heard: StoreChange[] = [];
    store().onChange((change) => heard.push(change));
    const [endpoint, key] = [newEndpoint(null), newKey()];
    const worker = newWorker(endpoint.id);
    await store().endpoints.insert(endpoint);
    await store().workers.insert(worker);
    await store().workers.update(worker.id, { state: "READY" });
    await store().keys.insert(key);
    await store().keys.delete(key.id);
    await store().endpoints.delete(endpoint.id);
    assert.deepEqual(heard[0], { table: "endpoints", id: endpoint.id, endpoint });
    assert.deepEqual(heard.at(-1), { table: "endpoints", id: endpoint.id, endpoint: undefined });
    assert.deepEqual(
      heard.map(({ table, id }) => `${table} ${id}`),
      [
        `endpoints ${endpoint.id}`,
        `workers ${worker.id}`,
        `workers ${worker.id}`,
        `keys ${key.id}`,
        `keys ${key.id}`,
        `workers ${worker.id}`,
        `endpoints ${endpoint.id}`,
      ],
    );
  });
}
