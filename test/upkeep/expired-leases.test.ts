import assert from "node:assert/strict";
import { test } from "node:test";
import { LEASE_CHECK_MS, LEASE_MS, STANDSTILL_MS } from "../../src/domain/limits.ts";
import { expiredLeases } from "../../src/upkeep/expired-leases.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue } from "../queue/open-queue.ts";

const never = new AbortController().signal;

test("after a standstill leases are looked at a round later, so that those who live can renew theirs first", async (t) => {
  const clock = { now: 1_700_000_000_000 };
  const under = await openTestQueue(clock);
  t.after(() => under.close());
  const { queue } = under;
  const round = expiredLeases(queue, () => clock.now);
  await queue.enqueue(newJob("e"));
  await queue.enqueue(newJob("e"));
  const [alive] = await queue.claim("e", "w1", 1, never);
  const [dead] = await queue.claim("e", "w2", 1, never);
  clock.now += LEASE_CHECK_MS + STANDSTILL_MS + LEASE_MS;
  assert.equal(await round(), 0);
  assert.deepEqual(await queue.renew([alive!]), []);
  clock.now += LEASE_CHECK_MS;
  assert.equal(await round(), 1);
  assert.deepEqual(await queue.renew([alive!, dead!]), [dead!]);
});
