import assert from "node:assert/strict";
import { test } from "node:test";
import { redeploy } from "./redeploy.ts";
import { soak } from "./soak.ts";

test("no call fails while new code is deployed again and again", { timeout: 300_000 }, async () => {
  const { done, failed, lastVersion } = await redeploy(3);
  assert.deepEqual(failed, []);
  assert.equal(lastVersion, 3);
  for (const [kind, count] of Object.entries(done)) assert.ok(count > 0, kind);
});

test("descriptors do not pile up under mixed calls", { timeout: 300_000 }, async () => {
  const { growth, failed } = await soak(4);
  assert.deepEqual(failed, []);
  for (const [name, { descriptors }] of Object.entries(growth)) {
    assert.ok(descriptors[1] <= descriptors[0] + 20, `${name}: ${descriptors.join(" → ")}`);
  }
});
