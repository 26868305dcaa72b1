import assert from "node:assert/strict";
import { test } from "node:test";
import { movedAway } from "../../src/domain/own-endpoints.ts";
import type { Store } from "../../src/store/store.ts";
import { removeDrainedEndpoints } from "../../src/upkeep/removed-endpoints.ts";
import { newEndpoint } from "../conformance/store.ts";
import { openTestStore } from "../store/open-store.ts";

/** The store; each call of it is written down by its name. */
function watched(store: Store, calls: string[]): Store {
  const watch = (target: object, path: string): object =>
    new Proxy(target, {
      get: (of, name) => {
        const value = Reflect.get(of, name) as unknown;
        if (typeof value === "object" && value !== null) return watch(value, `${path}${String(name)}.`);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          calls.push(path + String(name));
          return (value as (...args: unknown[]) => unknown).apply(of, args);
        };
      },
    });
  return watch(store, "") as Store;
}

test("where nothing was removed, a look takes the same few reads and no transaction, however many apps there are", async (t) => {
  const under = await openTestStore();
  t.after(() => under.close());
  const { store } = under;
  const jobs = { forget: async () => {} };
  const look = async () => {
    const calls: string[] = [];
    await removeDrainedEndpoints(watched(store, calls), jobs);
    return calls;
  };
  const before = await look();
  for (let n = 0; n < 20; n++) {
    await store.apps.insert({ id: `a${n}`, name: `app-${n}`, createdAt: 0 });
    for (const name of ["production", "live-ann", "staging"]) {
      await store.environments.insert({ id: `${n}-${name}`, appId: `a${n}`, name, createdAt: 0, buildId: null });
    }
  }
  assert.deepEqual(await look(), before);
  assert.ok(!before.includes("transaction"));
  await store.environments.setBuild("3-live-ann", "b");
  assert.ok((await look()).includes("transaction"));
  assert.equal(await store.environments.find("3-live-ann"), undefined);
  assert.equal((await store.environments.listByApp("a3")).length, 2);
});

test("an endpoint whose jobs cannot be removed holds up no other; it is tried again, and the fault is told", async (t) => {
  const under = await openTestStore();
  t.after(() => under.close());
  const { store } = under;
  await store.apps.insert({ id: "a", name: "app", createdAt: 0 });
  await store.environments.insert({ id: "e", appId: "a", name: "production", createdAt: 0, buildId: null });
  const endpoints: string[] = [];
  for (let n = 0; n < 3; n++) {
    const endpoint = newEndpoint("e", { name: `e${n}`, buildId: null });
    await store.endpoints.insert(endpoint);
    endpoints.push(endpoint.id);
  }
  const broken = endpoints[1];
  let isBroken = true;
  const forget = async (id: string) => {
    if (isBroken && id === broken) throw new Error("the disk is full");
  };
  await assert.rejects(removeDrainedEndpoints(store, { forget }), /the disk is full/);
  const left = async () => (await store.endpoints.listRemoved()).map(({ id }) => id);
  assert.deepEqual(await left(), [broken]);
  const moved = async () => {
    throw movedAway("the endpoint");
  };
  await removeDrainedEndpoints(store, { forget: moved });
  assert.deepEqual(await left(), [broken], "another has its jobs by now: that is no fault, and it removes it");
  isBroken = false;
  await removeDrainedEndpoints(store, { forget }, () => false);
  assert.deepEqual(await left(), [broken], "who has its jobs removes it");
  await removeDrainedEndpoints(store, { forget });
  assert.deepEqual(await left(), []);
});
