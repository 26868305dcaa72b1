/** A platform comes while jobs run elsewhere that take long. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { placeShard } from "../../src/domain/shard-placement.ts";
import { shardOf } from "../../src/queue/postgres/ownership.ts";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { type ReplicaServers, seenBy, startReplicas, startServers } from "./replicas.ts";
import { ownersOf, SHARES } from "./sharing.ts";

const skip = await lacksServers();
const DATABASE = "shards_long";
const ENDPOINTS = 5;

const WORKER = `
import os, time
from svc import Endpoint

${Array.from(
  { length: ENDPOINTS },
  (_, n) => `
@Endpoint(name="long-${n}", workers=(0, 1), idle_timeout=600)
def long_${n}(go):
    while not os.path.exists(go):
        time.sleep(0.05)
    return ${n}
`,
).join("")}
`;

describe("a platform that comes", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("gets all of its part but endpoints whose jobs may take long, and those when nothing runs: no job begins again", async (t) => {
    const replicas = await startReplicas(t, servers, DATABASE, SHARES);
    const { first, call } = replicas;
    const paths = await replicas.deploy(WORKER);
    const go = path.join(first.shared, "go");
    const running = Object.values(paths).map((at) =>
      call(first, `${at}/runsync?wait=300000`, { body: { input: { go } } }),
    );
    await eventually(async () => {
      for (const at of Object.values(paths)) assert.equal((await call(first, `${at}/health`)).json.jobs.inProgress, 1);
    });
    const second = await replicas.another();
    const held = new Set((await first.endpoints()).map(({ id }) => shardOf(id)));
    const has = async (isMeant: (shard: number) => boolean) => {
      const seen = await seenBy(second.dataDir);
      const ids = seen.map(({ id }) => id);
      const it = seen.find(({ url }) => url === second.url)!;
      const wanted = Array.from({ length: 256 }, (_, shard) => shard).filter(
        (shard) => isMeant(shard) && placeShard(shard, ids) === it.id,
      );
      assert.equal(it.shards, wanted.length);
    };
    await eventually(() => has((shard) => !held.has(shard)));
    const owners = await ownersOf(replicas, servers.postgres, DATABASE);
    assert.deepEqual([...new Set(owners.values())], [first.url], "what runs keeps its place");
    writeFileSync(go, "");
    for (const { json, text } of await Promise.all(running)) {
      assert.equal(json.status, "COMPLETED", text);
      assert.equal(json.retries ?? 0, 0, text);
    }
    await eventually(() => has(() => true));
  });
});
