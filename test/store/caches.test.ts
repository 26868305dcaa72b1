import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newSecret } from "../../src/domain/api-key.ts";
import { createEndpointCache } from "../../src/store/caches.ts";
import { createKeyChecker, createSignerFinder, keysOf } from "../../src/store/key-check.ts";
import { newApp, newEndpoint, newEnvironment, newKey, newWorker, type StoreUnderTest } from "../conformance/store.ts";
import { openTestStore } from "./open-store.ts";

let under: StoreUnderTest;
before(async () => {
  under = await openTestStore();
});
after(() => under.close());

test("a known key is answered at once, an unknown one is refused", async () => {
  const checker = createKeyChecker(under.store, () => 0);
  const { secret, hash } = newSecret("key");
  assert.equal(await checker.check(secret), undefined);
  const key = newKey({ hash });
  await under.store.keys.insert(key);
  const principal = {
    kind: "key",
    id: key.id,
    name: key.name,
    scopes: key.scopes,
    environmentId: null,
    endpointId: null,
  };
  assert.deepEqual(await checker.check(secret), principal);
  assert.deepEqual(checker.check(secret), principal);
});

test("a revoked key is refused by the next request", async () => {
  const checker = createKeyChecker(under.store, () => 0);
  const { secret, hash } = newSecret("key");
  const key = newKey({ hash });
  await under.store.keys.insert(key);
  await checker.check(secret);
  await under.store.keys.delete(key.id);
  assert.equal(await checker.check(secret), undefined);
});

test("where another may have revoked it unheard, the store is asked, whatever is known", async () => {
  let isSure = true;
  const deaf = { ...under.store, onChange: () => {} };
  const checker = createKeyChecker(
    deaf,
    () => 0,
    () => isSure,
  );
  const finder = createSignerFinder(
    keysOf(deaf),
    () => 0,
    () => isSure,
  );
  const { secret, hash } = newSecret("key");
  const key = newKey({ hash });
  await under.store.keys.insert(key);
  const seen = async () => [(await checker.check(secret)) !== undefined, (await finder(`k-${key.id}`)) !== undefined];
  assert.deepEqual(await seen(), [true, true]);
  isSure = false;
  assert.deepEqual(await seen(), [true, true]);
  await under.store.keys.delete(key.id);
  assert.deepEqual(await seen(), [false, false]);
});

test("a key revoked while it is looked up is not remembered", async () => {
  const { keys } = under.store;
  const revokedMeanwhile = async (wanted: string) => {
    const found = await keys.findByHash(wanted);
    if (found !== undefined) await keys.delete(found.id);
    return found;
  };
  const store = { ...under.store, keys: { ...keys, findByHash: revokedMeanwhile } };
  const checker = createKeyChecker(store, () => 0);
  const { secret, hash } = newSecret("key");
  await keys.insert(newKey({ hash }));
  await checker.check(secret);
  assert.equal(await checker.check(secret), undefined);
});

test("a key stops at its expiry", async () => {
  let now = 1000;
  const checker = createKeyChecker(under.store, () => now);
  const { secret, hash } = newSecret("key");
  await under.store.keys.insert(newKey({ hash, expiresAt: 2000 }));
  assert.ok(await checker.check(secret));
  now = 2000;
  assert.equal(await checker.check(secret), undefined);
});

test("a worker's token invokes endpoints of its own environment only, and ends with the worker", async () => {
  const checker = createKeyChecker(under.store, () => 0);
  const app = newApp();
  const environment = newEnvironment(app.id);
  const endpoint = newEndpoint(environment.id);
  const { secret, hash } = newSecret("worker");
  const worker = newWorker(endpoint.id, { tokenHash: hash });
  await under.store.apps.insert(app);
  await under.store.environments.insert(environment);
  await under.store.endpoints.insert(endpoint);
  await under.store.workers.insert(worker);
  assert.deepEqual(await checker.check(secret), {
    kind: "worker",
    id: worker.id,
    scopes: ["invoke"],
    environmentId: environment.id,
    ofEndpoint: endpoint.id,
  });
  await under.store.workers.delete(worker.id);
  assert.equal(await checker.check(secret), undefined);
});

test("the token of a worker without an environment does not reach every endpoint", async () => {
  const checker = createKeyChecker(under.store, () => 0);
  const endpoint = newEndpoint(null);
  const { secret, hash } = newSecret("worker");
  await under.store.endpoints.insert(endpoint);
  await under.store.workers.insert(newWorker(endpoint.id, { tokenHash: hash }));
  assert.notEqual((await checker.check(secret))?.environmentId, null);
});

test("a known endpoint is answered at once, and its change is seen by the next look", async () => {
  const cache = createEndpointCache(under.store);
  const endpoint = newEndpoint(null);
  assert.equal(await cache.find(endpoint.id), undefined);
  await under.store.endpoints.insert(endpoint);
  assert.deepEqual(await cache.find(endpoint.id), endpoint);
  assert.deepEqual(cache.find(endpoint.id), endpoint);
  await under.store.endpoints.update(endpoint.id, { reason: "changed" });
  assert.equal((await cache.find(endpoint.id))?.reason, "changed");
  await under.store.endpoints.delete(endpoint.id);
  assert.equal(await cache.find(endpoint.id), undefined);
});
