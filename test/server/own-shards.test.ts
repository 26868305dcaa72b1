/** What follows when shards come and go, with the real decisions about shards. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { ShardOwnership } from "../../src/domain/ownership.ts";
import { shardOf } from "../../src/queue/postgres/ownership.ts";
import { SHARDS } from "../../src/queue/postgres/schema.ts";
import { OwnShards } from "../../src/server/own-shards.ts";
import { eventually } from "../eventually.ts";

const ENDPOINT = "e-1";
const SHARD = shardOf(ENDPOINT);
const NEXT = (SHARD + 1) % SHARDS;
const FREE = Array.from({ length: SHARDS }, (_, shard) => ({ shard, owner: "", epoch: 1, nonce: 0 }));

function platform() {
  const failures: unknown[] = [];
  const shards = new OwnShards("me", (work) => work.catch((error) => failures.push(error)));
  const ownership = new ShardOwnership("me", SHARDS);
  const on = (event: Parameters<ShardOwnership["on"]>[0]) => {
    ownership.on(event);
    shards.told(ownership);
  };
  const won = FREE.map(({ shard }) => ({ shard, epoch: 2, nonce: 7 }));
  return {
    shards,
    failures,
    on,
    takeAll() {
      on({ type: "seen", now: 0, replicas: [], shards: FREE });
      on({ type: "claimed", tried: FREE.map(({ shard }) => shard), won });
    },
    load: () => on({ type: "loaded", shards: won }),
  };
}

test("An endpoint is this platform's when its jobs are in memory, and until they are gone", () => {
  const { shards, on, takeAll, load } = platform();
  assert.deepEqual([shards.isMine(ENDPOINT), shards.ownerOf(ENDPOINT)], [false, ""]);
  takeAll();
  assert.deepEqual([shards.isMine(ENDPOINT), shards.ownerOf(ENDPOINT)], [false, "me"], "it is being read");
  load();
  assert.equal(shards.isMine(ENDPOINT), true);
  on({ type: "away" });
  assert.equal(shards.isMine(ENDPOINT), true, "nobody can take what nobody can write");
  on({ type: "back" });
  on({ type: "lost", shards: [SHARD] });
  assert.equal(shards.isMine(ENDPOINT), false);
  assert.deepEqual(shards.counts().get("me"), SHARDS - 1);
});

test("What is given away starts nothing any more, and its workers are waited for before it goes", async () => {
  const { shards, on, takeAll, load } = platform();
  takeAll();
  load();
  const drained: boolean[] = [];
  const made: string[] = [];
  let isThere = false;
  shards.makeReady = async (to, [wish]) => {
    made.push(`${to} ${wish!.endpointId} x${wish!.workers} after ${drained.length}`);
    assert.equal(shards.isLeaving(ENDPOINT), false, "it is served as ever until then");
    return isThere;
  };
  shards.follow({
    moved: async () => {},
    changed: async () => {},
    busy: () => [ENDPOINT],
    live: () => [ENDPOINT],
    served: (isMeant) => (isMeant(ENDPOINT) ? [{ endpointId: ENDPOINT, revision: "r", workers: 2 }] : []),
    drain: async (isMeant) => void drained.push(isMeant(ENDPOINT)),
  });
  assert.deepEqual([...shards.busy()], [SHARD]);
  assert.equal(shards.isLeaving(ENDPOINT), false);
  on({ type: "seen", now: 0, replicas: [{ id: "other", beat: 1, draining: false }], shards: [] });
  on({ type: "drain", now: 0 });
  assert.deepEqual([...shards.live()], [SHARD]);
  assert.equal(await shards.leaves([SHARD, NEXT], "other"), false, "who is gone gets nothing");
  assert.deepEqual([shards.isLeaving(ENDPOINT), drained], [false, []]);
  isThere = true;
  assert.equal(await shards.leaves([SHARD], "other"), true);
  assert.equal(await shards.leaves([NEXT], "other"), true);
  assert.deepEqual([shards.isLeaving(ENDPOINT), shards.isMine(ENDPOINT)], [true, true]);
  assert.deepEqual(drained, [true, false]);
  assert.deepEqual(made, Array(2).fill(`other ${ENDPOINT} x2 after 0`), "workers go on until the other is ready");
  on({ type: "given", now: 0, shards: [{ shard: SHARD, epoch: 2, nonce: 7 }], to: "other" });
  assert.deepEqual([shards.isLeaving(ENDPOINT), shards.isMine(ENDPOINT)], [false, false]);
});

test("What could not be given is served on: its workers, who have been told to finish, are looked after again", async () => {
  const { shards, on, takeAll, load } = platform();
  takeAll();
  load();
  let looks = 0;
  shards.follow({
    moved: async () => {},
    changed: async () => void looks++,
    busy: () => [],
    live: () => [ENDPOINT],
    served: () => [],
    drain: () => Promise.reject(new Error("the store is away")),
  });
  on({ type: "seen", now: 0, replicas: [{ id: "other", beat: 1, draining: false }], shards: [], live: shards.live() });
  const leaves = () => assert.rejects(shards.leaves([SHARD], "other"), /the store is away/);
  await leaves();
  assert.equal(shards.isLeaving(ENDPOINT), true);
  on({ type: "kept", now: 0, shards: [SHARD] });
  await turn();
  assert.deepEqual([shards.isLeaving(ENDPOINT), shards.isMine(ENDPOINT), looks], [false, true, 1]);
  on({ type: "drain", now: 0 });
  await leaves();
  const again = leaves();
  assert.equal(shards.isLeaving(ENDPOINT), true, "it is told to finish at once: nothing of it is made ready elsewhere");
  await again;
  await turn();
  assert.equal(looks, 2);
});

test("Consequences never overlap: however often shards change meanwhile, one more look follows; who is held looks each time", async () => {
  const { shards, failures, on, takeAll, load } = platform();
  let [looks, moves] = [0, 0];
  let going = Promise.withResolvers<void>();
  shards.moved = () => moves++;
  takeAll();
  const came: boolean[] = [];
  shards.follow({
    busy: () => [],
    live: () => [],
    moved: async (isNew) => void came.push(isNew(ENDPOINT)),
    changed: () => {
      looks++;
      return going.promise;
    },
    served: () => [],
    drain: async () => {},
  });
  load();
  const before = moves;
  for (const shard of [1, 2, 3]) on({ type: "lost", shards: [shard] });
  assert.deepEqual([looks, moves - before], [1, 3]);
  assert.deepEqual(came, [true, false, false, false], "each time at once: jobs may wait for a worker");
  const { resolve } = going;
  going = Promise.withResolvers<void>();
  resolve();
  await eventually(() => assert.equal(looks, 2));
  going.reject(new Error("the store is away"));
  await turn();
  assert.equal(failures.length, 1);
  on({ type: "lost", shards: [4] });
  assert.equal(looks, 3, "a look that failed holds up no later one");
});
