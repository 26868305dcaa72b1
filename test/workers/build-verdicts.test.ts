import assert from "node:assert/strict";
import { test } from "node:test";
import type { EndpointHealth } from "../../src/domain/worker.ts";
import { judgeBuilds } from "../../src/workers/build-verdicts.ts";
import { newApp, newBuild, newEndpoint, newEnvironment } from "../conformance/store.ts";
import { openTestStore } from "../store/open-store.ts";

test("A build is ready when each endpoint is, failed with the reasons while one cannot run, and ready for good", async (t) => {
  const { store, close } = await openTestStore();
  t.after(close);
  const app = newApp();
  await store.apps.insert(app);
  const environment = newEnvironment(app.id);
  await store.environments.insert(environment);
  const build = newBuild(environment.id);
  await store.builds.insert(build);
  await store.environments.setBuild(environment.id, build.id);
  const health = new Map<string, EndpointHealth["state"]>();
  for (const name of ["a", "b"]) {
    await store.endpoints.insert(newEndpoint(environment.id, { id: name, name, buildId: build.id }));
  }
  await store.endpoints.insert(newEndpoint(environment.id, { id: "of-another-build", buildId: "other" }));
  let now = 0;
  const judged = async (a: EndpointHealth["state"], b: EndpointHealth["state"]) => {
    health.set("a", a).set("b", b);
    now++;
    await judgeBuilds({
      store,
      clock: () => now,
      health: async (id) => ({ state: health.get(id) ?? "BLOCKED", reason: "it broke", progress: [] }),
    });
    return (await store.builds.find(build.id))!.verdict;
  };
  const pending = { state: "pending", reason: "", at: null };
  assert.deepEqual(await judged("READY", "PREPARING"), pending);
  assert.deepEqual(await judged("STOPPED", "STOPPED"), pending, "nothing has run");
  assert.deepEqual(await judged("READY", "BLOCKED"), { state: "failed", reason: "b: it broke", at: 3 });
  assert.deepEqual(await judged("READY", "BLOCKED"), { state: "failed", reason: "b: it broke", at: 3 }, "said once");
  assert.deepEqual(await judged("READY", "PREPARING"), pending, "it is tried again");
  assert.deepEqual(await judged("READY", "STOPPED"), { state: "ready", reason: "", at: 6 });
  assert.deepEqual(await judged("BLOCKED", "BLOCKED"), { state: "ready", reason: "", at: 6 });
});
