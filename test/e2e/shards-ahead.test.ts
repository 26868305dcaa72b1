/** Who is about to get shards is killed while it starts workers for them. */
import assert from "node:assert/strict";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { placeShard } from "../../src/domain/shard-placement.ts";
import { LauncherProcess } from "../../src/drivers/launcher-process.ts";
import { shardOf } from "../../src/queue/postgres/ownership.ts";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { svc, type TestPlatform } from "./platform.ts";
import {
  breath,
  type ReplicaServers,
  type Replicas,
  type Second,
  seenBy,
  startReplicas,
  startServers,
} from "./replicas.ts";
import { ownersOf, SHARES, shared } from "./sharing.ts";

const skip = await lacksServers();
const TRIES = 4;
const NAMES = Array.from({ length: 6 }, (_, n) => `double-${n}`);

/** Its workers begin, and go no further while `gate` is there; each leaves a file that says so. */
const worker = (dir: string) => `
import os
import time
import uuid
from svc import Endpoint

with open(os.path.join(${JSON.stringify(dir)}, f"began-{uuid.uuid4()}"), "w"):
    pass
while os.path.exists(os.path.join(${JSON.stringify(dir)}, "gate")):
    time.sleep(0.02)

${NAMES.map(
  (name, n) => `
@Endpoint(name="${name}", workers=(1, 1), max_concurrency=8, idle_timeout=600)
async def double_${n}(x):
    return 2 * x
`,
).join("")}
`;

/** Calls of each endpoint to each of `to`, until `stop`. Who is killed may answer nobody; all others answer all. */
function callers(replicas: Replicas, paths: Readonly<Record<string, string>>, to: readonly { readonly url: string }[]) {
  const killed = new Set<{ readonly url: string }>();
  let [answered, broken, goesOn] = [0, 0, true];
  const caller = async (at: string, n: number) => {
    for (let i = 0; goesOn; i++) {
      const alive = to.filter((platform) => !killed.has(platform));
      const platform = alive[(n + i) % alive.length]!;
      const x = n * 10_000 + i;
      try {
        const { status, json, text } = await replicas.call(platform, `${at}/runsync`, { body: { input: { x } } });
        assert.deepEqual([status, json.output], [200, 2 * x], text);
        answered++;
      } catch (error) {
        if (!killed.has(platform) || error instanceof assert.AssertionError) throw error;
        broken++;
      }
      await breath();
    }
  };
  const load = Promise.all(Object.values(paths).flatMap((at, n) => [caller(at, 2 * n), caller(at, 2 * n + 1)]));
  load.catch(() => {});
  return {
    killed,
    /** As long as no call fails. */
    during: <T>(work: Promise<T>) => Promise.race([work, load.then(() => assert.fail("the calls are over"))]),
    more(calls: number): Promise<unknown> {
      const until = answered + calls;
      return this.during(eventually(() => assert.ok(answered > until)));
    },
    async stop(): Promise<string> {
      goesOn = false;
      await load;
      return `${answered} calls, ${broken} of the one that was killed`;
    },
  };
}

async function kill(t: TestContext, platform: TestPlatform | Second): Promise<void> {
  const left = LauncherProcess.earlier(platform.dataDir);
  t.after(() => left?.kill());
  await ("kill" in platform ? platform.kill() : platform.end("SIGKILL"));
}

const begun = (dir: string) => readdirSync(dir).filter((name) => name.startsWith("began-")).length;

describe("the next owner of shards, killed while it starts workers for them", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  async function started(t: TestContext, database: string) {
    const replicas = await startReplicas(t, servers, database, SHARES);
    const { first } = replicas;
    const dir = first.shared;
    const gate = path.join(dir, "gate");
    const paths = await replicas.deploy(worker(dir));
    const shardsOf = new Map((await first.endpoints()).map(({ id, name }) => [name, shardOf(id)]));
    const idsOf = async () => new Map((await seenBy(first.dataDir)).map(({ id, url }) => [url, id]));
    const epochs = (names: readonly string[]) => {
      const shards = names.map((name) => shardsOf.get(name));
      return servers.postgres.sql(
        `SELECT string_agg(epoch::text, ' ' ORDER BY shard) FROM queue_shards WHERE shard IN (-1${shards.map((one) => `, ${one}`).join("")})`,
        database,
      );
    };
    return { replicas, first, dir, gate, paths, shardsOf, idsOf, epochs };
  }

  test("gets none with workers: a platform that stays keeps them, and no call fails", async (t) => {
    const { replicas, first, dir, gate, paths, shardsOf, idsOf, epochs } = await started(t, "ahead_kept");
    const calls = callers(replicas, paths, [first]);
    await calls.more(40);
    const killedBefore = async () => {
      writeFileSync(gate, "");
      const before = begun(dir);
      const second = await replicas.another();
      const ids = await idsOf();
      const next = ids.get(second.url)!;
      const wanted = NAMES.filter((name) => placeShard(shardsOf.get(name)!, [...ids.values()]) === next);
      const held = await epochs(wanted);
      if (wanted.length > 0)
        await calls.during(eventually(() => assert.ok(begun(dir) > before, "workers begin there")));
      // Who is not ready after SHARD_READY_MAX_MS gets them all the same: so it may be on a machine that is very busy.
      const isBefore = wanted.length > 0 && (await epochs(wanted)) === held;
      await kill(t, second);
      rmSync(gate);
      await calls.during(shared(first.dataDir, [first.url]));
      await calls.more(40);
      t.diagnostic(`${wanted.length} endpoints were to go, ${isBefore ? "and none had gone" : "too late"}`);
      if (isBefore) assert.equal(await epochs(wanted), held, "nobody else had them");
      return isBefore;
    };
    let tries = 0;
    while (!(await killedBefore())) assert.ok(++tries < TRIES, "none was killed before it had them");
    t.diagnostic(await calls.stop());
  });

  test("gets none with workers: a platform that leaves gives them to another, and no call fails but by its own connection", async (t) => {
    const { replicas, first, dir, gate, paths, shardsOf, idsOf } = await started(t, "ahead_given");
    const all = [first, await replicas.another(), await replicas.another()];
    const urls = all.map(({ url }) => url);
    await shared(first.dataDir, urls);
    const ids = await idsOf();
    const placed = (name: string, among: readonly { readonly url: string }[]) =>
      all.find(({ url }) => {
        const candidates = among.map((platform) => ids.get(platform.url)!);
        return ids.get(url) === placeShard(shardsOf.get(name)!, candidates);
      })!;
    // Those with workers come last.
    await eventually(async () => {
      const owners = await ownersOf(replicas, servers.postgres, "ahead_given");
      for (const name of NAMES) assert.equal(owners.get(name), placed(name, all).url);
    });
    const without = (one: (typeof all)[number]) => all.filter((platform) => platform !== one);
    // The first has loaded the code of all before: its workers begin behind the gate. All lie so once in hundreds of starts.
    const moves = NAMES.find((name) => placed(name, without(placed(name, all))) !== first);
    if (moves === undefined) return t.skip("the next owner of each is the first");
    const leaves = placed(moves, all);
    const rest = without(leaves);
    const next = placed(moves, rest);
    const stays = rest.find((platform) => platform !== next)!;
    const calls = callers(replicas, paths, rest);
    await calls.more(40);
    writeFileSync(gate, "");
    const before = begun(dir);
    const moving = NAMES.filter((name) => placed(name, all) === leaves).length;
    const stopped = svc(["platform", "stop", "--data-dir", leaves.dataDir]);
    await calls.during(eventually(() => assert.ok(begun(dir) > before, "workers begin there")));
    calls.killed.add(next);
    await kill(t, next);
    rmSync(gate);
    assert.equal((await calls.during(stopped)).code, 0);
    await calls.during(shared(stays.dataDir, [stays.url]));
    await calls.more(40);
    t.diagnostic(`${moving} endpoints were to go; ${await calls.stop()}`);
  });
});
