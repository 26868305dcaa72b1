/**
 * Replicas in turns that a seed chooses (simulation/world.ts). 2,000 schedules of one seed take about 20 s of processor time;
 * `npm run bench -- ownership --rounds 100` tries 100,000. What fails is printed with its seed, and is tried again by
 * SVC_SCHEDULE="<seed> <path>" npm test -- queue/simulation.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { trySchedulesApart } from "./simulation/apart.ts";
import { replayed } from "./simulation/schedules.ts";

test("however replicas, network and database fail, each job ends once, nothing accepted is lost, and each shard finds an owner", async () => {
  assert.equal(await trySchedulesApart(2_000, { replay: replayed() ?? { seed: 7 } }), undefined);
});

test("schedules that found something once, among hundreds of thousands, find it no more", async () => {
  // A replica read again what another had meanwhile, and wrote a job for an endpoint whose row went with that one's tail.
  assert.equal(await trySchedulesApart(1, { replay: { seed: 1_052_508_323, path: "546" } }), undefined);
});

for (const [fault, left] of [
  ["fence", "a batch that is written whoever has its shards"],
  ["nonce", "a batch that asks for the epoch alone, which may be given twice after a failover"],
  ["journal", "a batch that is written again when it is sent again"],
  ["tail", "a batch that does not ask for the one before it, which may be lost with the end of what was written"],
] as const)
  test(`the schedules find ${left}`, async () => {
    assert.match((await trySchedulesApart(600, { fault, replay: { seed: 1 } })) ?? "nothing was found", /SVC_SCHEDULE/);
  });
