/** Which revision of an endpoint of `svc run` should have a warm worker. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LIVE_WARM_UP_DELAY_MS } from "../../src/domain/limits.ts";
import { LiveEndpoints } from "../../src/workers/live-endpoints.ts";
import { newEndpoint } from "../conformance/store.ts";

function open() {
  const woken: string[] = [];
  const live = new LiveEndpoints({
    link: { switchOver: () => {}, sample: () => ({ workers: [{}] }) },
    wake: (id) => woken.push(id),
  });
  const first = newEndpoint(null, { name: "live-hello", revision: "r1" });
  return { live, woken, first, second: { ...first, revision: "r2" } };
}

test("Only the newest revision is warmed up, and of one that was replaced before its time nothing stays", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { live, woken, first, second } = open();
  live.changed(first);
  live.changed(second);
  t.mock.timers.tick(LIVE_WARM_UP_DELAY_MS);
  assert.deepEqual([live.warms(first), live.warms(second)], [false, true]);
  assert.deepEqual(woken, [first.id]);
  live.settled(first.id, "r1");
  assert.ok(live.warms(second));
  live.settled(first.id, "r2");
  assert.ok(!live.warms(second));
});

test("A revision that has its worker before its time, for a call that waited, is not warmed up again", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { live, woken, first } = open();
  live.changed(first);
  live.settled(first.id, "r1");
  t.mock.timers.tick(LIVE_WARM_UP_DELAY_MS);
  assert.ok(!live.warms(first));
  assert.deepEqual(woken, []);
});
