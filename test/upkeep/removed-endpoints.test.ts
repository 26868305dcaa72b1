import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../src/store/store.ts";
import { removeDrainedEndpoints } from "../../src/upkeep/removed-endpoints.ts";
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
