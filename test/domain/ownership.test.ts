import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  REPLICA_FORGET_MS,
  REPLICA_SILENT_MS,
  SHARD_BETTER_MS,
  SHARD_BUSY_MAX_MS,
  SHARDS_GIVEN_AT_ONCE,
  SHARDS_LEFT_AT_ONCE,
} from "../../src/domain/limits.ts";
import { type OwnershipAction, ShardOwnership } from "../../src/domain/ownership.ts";
import { placeShard, ShardPlacement } from "../../src/domain/shard-placement.ts";

const SHARDS = SHARDS_LEFT_AT_ONCE + 3;
const shards = (owner: string, epoch = 3, nonce = 7) =>
  Array.from({ length: SHARDS }, (_, shard) => ({ shard, owner, epoch, nonce }));
const replica = (id: string, beat: number, draining = false) => ({ id, beat, draining });
const all = Array.from({ length: SHARDS }, (_, shard) => shard);
const only = <T extends OwnershipAction["type"]>(actions: readonly OwnershipAction[], type: T) =>
  actions.filter((action) => action.type === type) as Extract<OwnershipAction, { type: T }>[];

const numbers = (holds: readonly { readonly shard: number }[]) => holds.map(({ shard }) => shard);

/** Alone, with all shards loaded. */
function owner(): ShardOwnership {
  const one = new ShardOwnership("a", SHARDS);
  one.on({ type: "seen", now: 0, replicas: [], shards: shards("", 3, 0) });
  const won = shards("a", 4);
  one.on({ type: "claimed", tried: all, won });
  one.on({ type: "loaded", shards: won });
  assert.deepEqual(one.in("OWNER"), all);
  return one;
}

describe("the placement of shards", () => {
  const many = Array.from({ length: 256 }, (_, shard) => shard);

  test("is the same for all who see the same replicas, in whatever order", () => {
    const [one, other] = [new ShardPlacement(256), new ShardPlacement(256)];
    assert.deepEqual(one.among(["a", "b", "c"]), other.among(["c", "a", "b"]));
    assert.equal(placeShard(1, []), undefined);
  });

  test("moves only what a replica had or shall have, and gives each its part", () => {
    const of = (replicas: string[]) => [...new ShardPlacement(256).among(replicas)];
    const [three, two] = [of(["a", "b", "c"]), of(["a", "b"])];
    for (const shard of many) if (three[shard] !== "c") assert.equal(three[shard], two[shard]);
    for (const name of ["a", "b", "c"]) {
      const part = three.filter((place) => place === name).length;
      assert.ok(part > 55 && part < 115, `${name} has ${part} of 256`);
    }
  });
});

describe("a replica", () => {
  test("takes all shards when it is alone, each as it was seen, and has them when they are loaded", () => {
    const one = new ShardOwnership("a", SHARDS);
    const seen = shards("", 3, 0);
    const [claim] = only(one.on({ type: "seen", now: 0, replicas: [], shards: seen }), "claim");
    assert.deepEqual(claim!.shards, seen);
    const won = shards("a", 4).slice(1);
    assert.deepEqual(one.on({ type: "claimed", tried: all, won }), [{ type: "load", shards: won }]);
    assert.deepEqual([one.stateOf(0), one.stateOf(1)], ["FREE", "LOADING"]);
    one.on({ type: "loaded", shards: won });
    assert.deepEqual(one.in("OWNER"), all.slice(1));
  });

  test("leaves the shards of one that lives alone, and takes them when it was silent for long enough by its own clock", () => {
    const one = new ShardOwnership("a", SHARDS);
    const see = (now: number, beat: number) =>
      one.on({ type: "seen", now, replicas: [replica("b", beat)], shards: shards("b") });
    assert.deepEqual(see(0, 1), []);
    assert.deepEqual(see(REPLICA_SILENT_MS, 2), []);
    assert.deepEqual(see(2 * REPLICA_SILENT_MS - 1, 2), []);
    assert.equal(only(see(2 * REPLICA_SILENT_MS, 2), "claim")[0]!.shards.length, SHARDS);
  });

  test("takes them at once where nobody answers any more", () => {
    const one = new ShardOwnership("a", SHARDS);
    one.on({ type: "seen", now: 0, replicas: [replica("b", 1)], shards: shards("b") });
    assert.equal(only(one.on({ type: "gone", now: 1, replica: "b" }), "claim")[0]!.shards.length, SHARDS);
    // It lives after all: what it has is left to it.
    const again = new ShardOwnership("a", SHARDS);
    again.on({ type: "seen", now: 0, replicas: [replica("b", 1)], shards: [] });
    again.on({ type: "gone", now: 1, replica: "b" });
    assert.deepEqual(again.on({ type: "seen", now: 2, replicas: [replica("b", 2)], shards: shards("b") }), []);
  });

  test("counts nobody as silent for the time in which the database was away", () => {
    const one = new ShardOwnership("a", SHARDS);
    const see = (now: number) => one.on({ type: "seen", now, replicas: [replica("b", 1)], shards: shards("b") });
    see(0);
    one.on({ type: "away" });
    one.on({ type: "back" });
    assert.deepEqual(see(10 * REPLICA_SILENT_MS), []);
    assert.equal(see(11 * REPLICA_SILENT_MS).length, 1);
  });

  test("gives what another should have for long enough, all without workers together, the rest some at a time, and nothing while it does not know where the database is", () => {
    const one = owner();
    const others = new ShardPlacement(SHARDS)
      .among(["a", "b"])
      .flatMap((place, shard) => (place === "b" ? [shard] : []));
    assert.ok(others.length > SHARDS_GIVEN_AT_ONCE + 2);
    const [quiet, live] = [others.slice(0, 2), others.slice(2)];
    const has = { live: new Set(live), shards: shards("a", 4) };
    const see = (now: number) => one.on({ type: "seen", now, replicas: [replica("b", now)], ...has });
    assert.deepEqual(see(1), []);
    assert.deepEqual(see(SHARD_BETTER_MS), []);
    one.on({ type: "away" });
    assert.deepEqual(one.in("UNSURE"), all);
    assert.deepEqual(see(SHARD_BETTER_MS + 1), []);
    one.on({ type: "back" });
    const gives = only(see(SHARD_BETTER_MS + 2), "give");
    const first = live.slice(0, SHARDS_GIVEN_AT_ONCE);
    assert.deepEqual(
      gives.map((give) => [numbers(give.shards), give.to]),
      [[quiet, "b"], ...first.map((shard) => [[shard], "b"])],
    );
    assert.deepEqual(see(SHARD_BETTER_MS + 3), [], "some are under way");
    const given = (give: (typeof gives)[number], now: number) => only(one.on({ ...give, type: "given", now }), "give");
    assert.deepEqual(given(gives[0]!, SHARD_BETTER_MS + 4), [], "those without workers make no room");
    const [second] = given(gives[1]!, SHARD_BETTER_MS + 5);
    assert.deepEqual([numbers(second!.shards), one.stateOf(first[0]!)], [[live[SHARDS_GIVEN_AT_ONCE]], "FREE"]);
    assert.equal(one.ownerOf(first[0]!), "b", "whose it is now is known");
  });

  test("that leaves gives all it has, some at a time; alone it keeps them", () => {
    const alone = owner();
    assert.deepEqual(alone.on({ type: "drain", now: 1 }), []);
    assert.equal(alone.hasHeir(1), false);
    const one = owner();
    const replicas = [replica("b", 1), replica("c", 1, true)];
    one.on({ type: "seen", now: 1, replicas, shards: shards("a", 4), live: new Set(all) });
    assert.equal(one.hasHeir(1), true);
    const gives = only(one.on({ type: "drain", now: 1 }), "give");
    assert.equal(gives.length, SHARDS_LEFT_AT_ONCE);
    const given: number[] = [];
    for (let give = gives.shift(); give !== undefined; give = gives.shift()) {
      assert.equal(give.to, "b", "nothing goes to one that leaves too");
      given.push(...numbers(give.shards));
      gives.push(...only(one.on({ ...give, type: "given", now: 1 }), "give"));
      assert.ok(gives.length <= SHARDS_LEFT_AT_ONCE);
    }
    assert.deepEqual(given, all);
    assert.deepEqual(one.in("FREE"), all);
    one.on({ type: "seen", now: 2, replicas: [replica("b", 2, true)], shards: [] });
    assert.equal(one.hasHeir(2), false, "who leaves too is no heir");
  });

  test("keeps what was to go to one that ended before it was ready, and gives it to another", () => {
    const one = owner();
    one.on({ type: "seen", now: 1, replicas: [replica("b", 1), replica("c", 1)], shards: shards("a", 4) });
    const gives = only(one.on({ type: "drain", now: 1 }), "give");
    const lost = numbers(gives.find(({ to }) => to === "b")!.shards);
    one.on({ type: "gone", now: 2, replica: "b" });
    const [next] = only(one.on({ type: "kept", now: 2, shards: lost }), "give");
    assert.deepEqual([numbers(next!.shards), next!.to, one.stateOf(lost[0]!)], [lost, "c", "GIVING"]);
    one.on({ type: "away" });
    assert.deepEqual(one.on({ type: "kept", now: 3, shards: lost }), []);
    assert.equal(one.stateOf(lost[0]!), "UNSURE");
    // One that was taken over meanwhile stays another's.
    const [other] = numbers(gives.find(({ to }) => to === "c")!.shards);
    one.on({ type: "lost", shards: [other!] });
    one.on({ type: "kept", now: 4, shards: [other!] });
    assert.equal(one.stateOf(other!), "LOST");
  });

  test("drops what a batch found to be another's, and what the rows say is, before it may have it again", () => {
    const one = owner();
    assert.deepEqual(one.on({ type: "lost", shards: [2] }), [{ type: "drop", shards: [2] }]);
    const rows = shards("a", 4).map((row) => (row.shard === 3 ? { ...row, nonce: 8 } : row));
    const actions = one.on({ type: "seen", now: 1, replicas: [], shards: rows });
    assert.deepEqual(actions, [{ type: "drop", shards: [3] }]);
    assert.deepEqual(one.in("LOST"), [2, 3]);
    one.on({ type: "dropped", shards: [2, 3] });
    assert.equal(only(one.on({ type: "seen", now: 2, replicas: [], shards: rows }), "claim")[0]!.shards.length, 2);
  });

  test("does not take rows that it read too late for what it has: a take that was overtaken loads nothing", () => {
    const one = new ShardOwnership("a", SHARDS);
    one.on({ type: "seen", now: 0, replicas: [], shards: shards("", 3, 0) });
    const won = shards("a", 4);
    one.on({ type: "claimed", tried: all, won });
    one.on({ type: "lost", shards: all });
    one.on({ type: "dropped", shards: all });
    one.on({ type: "loaded", shards: won });
    assert.deepEqual(one.in("OWNER"), []);
  });

  test("gives a shard on which something long runs when nothing runs, or after long; one that leaves does not wait", () => {
    const started = () => {
      const one = owner();
      const mine = all.filter((shard) => placeShard(shard, ["a", "b"]) === "b");
      let beat = 0;
      const see = (now: number, busy: readonly number[]) => {
        const replicas = [replica("b", ++beat)];
        const [give] = only(one.on({ type: "seen", now, replicas, shards: [], busy: new Set(busy) }), "give");
        return give && numbers(give.shards);
      };
      return { one, mine, see };
    };
    const { mine, see } = started();
    const [first, second] = mine;
    assert.ok(second !== undefined, "two of eight should move");
    const others = mine.filter((shard) => shard !== second);
    assert.equal(see(0, mine), undefined);
    assert.equal(see(SHARD_BETTER_MS, mine), undefined, "all are busy");
    assert.deepEqual(see(SHARD_BETTER_MS + 1, others), [second], "one that is not goes first");
    assert.deepEqual(see(SHARD_BETTER_MS + 3, mine.slice(2)), [first], "now it is quiet");
    const long = started();
    assert.equal(long.see(0, mine), undefined);
    assert.equal(long.see(SHARD_BUSY_MAX_MS - 1, mine), undefined);
    assert.deepEqual(long.see(SHARD_BUSY_MAX_MS, mine), mine, "it is not kept for ever");
    const leaves = started();
    assert.equal(leaves.see(0, all), undefined);
    assert.ok(only(leaves.one.on({ type: "drain", now: 1 }), "give").length > 0);
  });

  test("forgets one that has been silent for long and has nothing", () => {
    const one = owner();
    const see = (now: number) => one.on({ type: "seen", now, replicas: [replica("b", 1)], shards: shards("a", 4) });
    see(0);
    assert.deepEqual(only(see(REPLICA_FORGET_MS - 1), "forget"), []);
    assert.deepEqual(only(see(REPLICA_FORGET_MS), "forget"), [{ type: "forget", replica: "b" }]);
  });
});
