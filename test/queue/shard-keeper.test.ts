import assert from "node:assert/strict";
import { test } from "node:test";
import { ShardKeeper } from "../../src/queue/postgres/shard-keeper.ts";
import { eventually } from "../eventually.ts";

const SHARDS = 3;
const FREE = Array.from({ length: SHARDS }, (_, shard) => ({ shard, owner: "", epoch: 1, nonce: 0 }));

test("Shards that could not be read are read again, and the reason is told each time: nobody else takes them", async (t) => {
  const told: string[] = [];
  const reasons = ["no memory", "no room"];
  let taken: { shard: number; owner: string; epoch: number; nonce: number }[] = FREE;
  const keeper = new ShardKeeper({
    id: "me",
    shards: SHARDS,
    rows: {
      look: async () => ({ replicas: [], shards: taken }),
      async take(shards) {
        taken = shards.map(({ shard, epoch }) => ({ shard, owner: "me", epoch: epoch + 1, nonce: 7 }));
        return taken;
      },
      forget: async () => {},
    },
    memory: {
      async load() {
        const reason = reasons.shift();
        if (reason !== undefined) throw new Error(reason);
      },
      give: async () => true,
      drop: async () => {},
    },
    monotonic: () => performance.now(),
    pause: () => new Promise((resolve) => setImmediate(resolve)),
    own: (work) => void work.catch(({ message }: Error) => told.push(message)),
  });
  t.after(() => keeper.close());
  await keeper.start();
  await eventually(() => assert.equal(keeper.ownership.in("OWNER").length, SHARDS));
  assert.deepEqual(told, ["no memory", "no room"]);
});
