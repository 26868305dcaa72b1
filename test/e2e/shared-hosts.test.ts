/** Platforms that share the endpoints of one database, and machines that joined: those hang on one of them, and run workers of all. */
import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { joinable } from "./joined-hosts.ts";
import {
  breath,
  leadsTo,
  type ReplicaServers,
  type Replicas,
  type Second,
  seenBy,
  startReplicas,
  startServers,
  TcpWay,
} from "./replicas.ts";

const skip = await lacksServers();
const SHARES = { SVC_SHARE_SHARDS: "1", SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_LOCAL_WORKERS: "0" };
const ROOM = { SVC_CPU_OVERCOMMIT: "16", SVC_MEMORY_OVERCOMMIT: "16" };
const COUNT = 6;

const WORKER = (file: string) => `
import time
from svc import Endpoint

${Array.from(
  { length: 2 * COUNT },
  (_, n) => `
@Endpoint(name="double-${n}", cpu="cpu3c-1-2", workers=(0, 1), max_concurrency=4, idle_timeout=600)
def double_${n}(x, seconds=0):
    with open(${JSON.stringify(file)}, "a") as out:
        out.write(f"{x}\\n")
    time.sleep(seconds)
    return 2 * x
`,
).join("")}

web = Endpoint(name="web", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)

@web.post("/echo")
async def echo(text: str) -> dict:
    return {"text": text}
`;

type Platform = { readonly url: string };

/** Each of `platforms` has shards. */
async function shared(dataDir: string, platforms: number): Promise<void> {
  await eventually(async () => {
    const seen = await seenBy(dataDir);
    assert.equal(seen.filter(({ shards }) => shards > 0).length, platforms, JSON.stringify(seen));
  });
}

/** Further platforms, and a machine; each platform has a part of the endpoints. */
async function withMachine(
  t: TestContext,
  replicas: Replicas,
  further: readonly Record<string, string>[],
): Promise<{
  readonly others: readonly Second[];
  readonly agent: Awaited<ReturnType<ReturnType<typeof joinable>["join"]>>["agent"];
  readonly again: () => unknown;
  readonly paths: Record<string, string>;
  readonly doubles: readonly string[];
  /** What was run, as often as it was. */
  readonly ran: () => number[];
}> {
  const others = await Promise.all(further.map((env) => replicas.another(env)));
  const { first } = replicas;
  await shared(first.dataDir, others.length + 1);
  const { join } = joinable(t, first);
  const { agent, again } = await join("one", { url: await leadsTo(t, [first, ...others]), env: ROOM });
  const effects = path.join(first.shared, "effects.txt");
  // Workers are users of their own.
  writeFileSync(effects, "");
  chmodSync(effects, 0o666);
  const paths = await replicas.deploy(WORKER(effects));
  const doubles = Array.from({ length: 2 * COUNT }, (_, n) => paths[`double-${n}`]!);
  const ran = () => readFileSync(effects, "utf8").trim().split("\n").map(Number);
  return { others, agent, again, paths, doubles, ran };
}

/** How many workers began for endpoints of this platform. */
const starts = ({ said }: Pick<Second, "said">) => said.filter((line) => line.includes("worker started")).length;

async function hostsOf({ call }: Replicas, platform: Platform) {
  const { json, text } = await call(platform, "/graphql", { body: { query: "{ hosts { state workers { id } } }" } });
  assert.ok(json.data?.hosts, text);
  return json.data.hosts as { state: string; workers: { id: string }[] }[];
}

describe("platforms that share the endpoints, and machines that joined", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("one machine runs the workers of both, whoever is called", async (t) => {
    const replicas = await startReplicas(t, servers, "hosts_shared", SHARES);
    const { others, paths, doubles } = await withMachine(t, replicas, [{}]);
    const { first, call } = replicas;
    const second = others[0]!;
    for (const [n, at] of doubles.entries()) {
      for (const platform of [first, second]) {
        const { status, json, text } = await call(platform, `${at}/runsync`, { body: { input: { x: n } } });
        assert.deepEqual([status, json.output], [200, 2 * n], text);
      }
    }
    for (const platform of [first, second]) {
      const echo = await call(platform, `${paths.web}/echo`, { body: { text: "hear" } });
      assert.deepEqual([echo.status, echo.json], [200, { text: "hear" }], echo.text);
    }
    const all = doubles.length + 1;
    t.diagnostic(`${starts(second)} of ${all} workers are of endpoints of the second`);
    assert.ok(starts(second) > 0 && starts(second) < all);
    const [host] = await hostsOf(replicas, second);
    assert.equal(host!.workers.length, all, "all are counted on it");
  });

  test("the one that lends and another are killed under load: workers go on, no job is lost, and none ends twice", async (t) => {
    const replicas = await startReplicas(t, servers, "hosts_killed", SHARES);
    const { others, doubles, ran } = await withMachine(t, replicas, [{}, {}]);
    const { first, call } = replicas;
    const [second, third] = others as [Second, Second];
    const used = doubles.slice(0, COUNT);
    const accepted = new Map<string, { readonly at: string; readonly x: number }>();
    let [answered, goesOn, longest] = [0, true, 0];
    const caller = async (n: number) => {
      for (let i = 0; goesOn; i++) {
        const x = n * 10_000 + i;
        const at = used[x % COUNT]!;
        const began = performance.now();
        const { status, json, text } = await call(third, `${at}/${n === 0 ? "run" : "runsync"}`, {
          body: { input: { x } },
        });
        assert.equal(status, 200, text);
        if (n > 0) assert.equal(json.output, 2 * x, text);
        accepted.set(json.id, { at, x });
        longest = Math.max(longest, performance.now() - began);
        answered++;
        await breath();
      }
    };
    const load = Promise.all([0, 1, 2].map(caller));
    const goesOnFor = async (calls: number) => {
      const until = answered + calls;
      await Promise.race([load, eventually(() => assert.ok(answered > until))]);
    };
    const long = async (x: number) => {
      for (const at of used) {
        const { json, text } = await call(third, `${at}/run`, { body: { input: { x, seconds: 10 } } });
        accepted.set(json.id, { at, x });
        assert.ok(json.id, text);
      }
      await eventually(() => assert.equal(ran().filter((one) => one === x).length, COUNT));
    };
    await goesOnFor(30);
    await long(77_777_777);
    await second.end("SIGKILL");
    await goesOnFor(30);
    await shared(third.dataDir, 2);
    await long(88_888_888);
    await first.kill();
    await goesOnFor(30);
    await shared(third.dataDir, 1);
    goesOn = false;
    await load;
    for (const [id, { at, x }] of accepted) {
      await eventually(async () => {
        const { json, text } = await call(third, `${at}/status/${id}`);
        assert.deepEqual([json.status, json.output], ["COMPLETED", 2 * x], text);
      });
    }
    for (const at of used) {
      const { json } = await call(third, `${at}/health`);
      const wanted = [...accepted.values()].filter((one) => one.at === at).length;
      assert.equal(json.jobs.completed, wanted, "each job is counted once");
    }
    t.diagnostic(
      `${accepted.size} jobs, run ${ran().length} times, the longest call took ${Math.round(longest)} ms; the long ones ran ${[77_777_777, 88_888_888].map((x) => ran().filter((one) => one === x).length).join(" and ")} times`,
    );
    // Machines hang on the third now: others start there.
    for (const at of doubles.slice(COUNT)) {
      const { json, text } = await call(third, `${at}/runsync`, { body: { input: { x: 5 } } });
      assert.equal(json.output, 10, text);
    }
    const [host] = await hostsOf(replicas, third);
    assert.equal(host!.state, "joined");
  });

  test("links between platforms are cut, and their machine's agent is killed: what runs goes on, starts wait, and all heals", async (t) => {
    const ways = [await TcpWay.open(t), await TcpWay.open(t)];
    const [ofFirst, ofSecond] = ways.map(({ to, port }) => ({
      SVC_REPLICA_LISTEN: `tls://127.0.0.1:${to}`,
      SVC_REPLICA_PUBLIC: `tls://127.0.0.1:${port}`,
    }));
    const replicas = await startReplicas(t, servers, "hosts_cut", { ...SHARES, ...ofFirst });
    const { others, agent, again, doubles } = await withMachine(t, replicas, [ofSecond!]);
    const { first, call } = replicas;
    const second = others[0]!;
    const used = doubles.slice(0, COUNT);
    const answers = async (endpoints: readonly string[], to: Platform, x: number) => {
      await Promise.all(
        endpoints.map(async (at) => {
          const { json, text } = await call(to, `${at}/runsync`, { body: { input: { x } } });
          assert.equal(json.output, 2 * x, text);
        }),
      );
    };
    await answers(used, second, 1);
    // Each has those that it answers alone.
    for (const way of ways) way.cut();
    const jobs = await Promise.all(
      used.map(async (at) => ({ at, id: (await call(first, `${at}/run`, { body: { input: { x: 9 } } })).json?.id })),
    );
    for (const way of ways) way.mend();
    await answers(used, first, 2);
    for (const { at, id } of jobs) {
      if (id === undefined) continue; // It was not accepted.
      await eventually(async () => {
        const { json, text } = await call(second, `${at}/status/${id}`);
        assert.equal(json.output, 18, text);
      });
    }
    await answers(doubles.slice(COUNT, COUNT + 3), second, 3);
    await agent.signal("SIGKILL");
    await answers(used, second, 4);
    const [host] = await hostsOf(replicas, first);
    assert.equal(host!.state, "away");
    const waiting = answers(doubles.slice(COUNT + 3), second, 5);
    again();
    await waiting;
    // One that is told to end before it has its workers again leaves them behind.
    await eventually(async () => assert.equal((await hostsOf(replicas, first))[0]!.state, "joined"));
  });
});
