/** A machine that several platforms share, full of one's workers that have nothing to do, when an endpoint of another is called. */
import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { after, before, describe, type TestContext, test } from "node:test";
import { lacksServers } from "../campaign/platforms.ts";
import { joinable } from "./joined-hosts.ts";
import { leadsTo, type ReplicaServers, startReplicas, startServers } from "./replicas.ts";
import { ownersOf, SHARES, shared } from "./sharing.ts";

const skip = await lacksServers();
const MACHINES = { ...SHARES, SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_LOCAL_WORKERS: "0" };
const ENDPOINTS = 8;

const worker = (round: number) => `
from svc import Endpoint

${Array.from(
  { length: ENDPOINTS },
  (_, n) => `
@Endpoint(name="double-${round}-${n}", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=3600)
def double_${n}(x):
    return 2 * x
`,
).join("")}`;

/** Room for so many workers. */
function room(workers: number): Record<string, string> {
  const overcommit = (workers + 0.001) / availableParallelism();
  assert.ok(overcommit >= 0.1, "SVC_CPU_OVERCOMMIT goes down to 0.1");
  return { SVC_CPU_OVERCOMMIT: String(overcommit), SVC_MEMORY_OVERCOMMIT: "100" };
}

async function withMachine(t: TestContext, servers: ReplicaServers, database: string, further: number) {
  const replicas = await startReplicas(t, servers, database, MACHINES);
  const { first, call } = replicas;
  const others = await Promise.all(Array.from({ length: further }, () => replicas.another()));
  const platforms = [first, ...others];
  const urls = platforms.map(({ url }) => url);
  await shared(first.dataDir, urls);
  await joinable(t, first).join("one", { url: await leadsTo(t, platforms), env: room(1) });
  /** The paths of the endpoints that each platform has. */
  let of: string[][] = [];
  // Whose an endpoint is follows from its id, which is drawn.
  for (let round = 1; of.length === 0 || of.some((some) => some.length === 0); round++) {
    const paths = await replicas.deploy(worker(round));
    const owners = await ownersOf(replicas, servers.postgres, database);
    of = urls.map((url) => Object.keys(paths).flatMap((name) => (owners.get(name) === url ? [paths[name]!] : [])));
  }
  const answers = async (path: string, x: number) => {
    const began = performance.now();
    const { json, text } = await call(first, `${path}/runsync?wait=90000`, { body: { input: { x } } });
    assert.deepEqual([json.status, json.output], ["COMPLETED", 2 * x], text);
    return Math.round(performance.now() - began);
  };
  return { replicas, first, others, of, answers };
}

describe("a full machine that platforms share", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("whoever's idle worker fills it makes room for whoever is called: the one that lends, and those that borrow", async (t) => {
    const { of, answers } = await withMachine(t, servers, "room_shared", 2);
    const [lender, one, other] = of.map(([path]) => path!) as [string, string, string];
    const took: number[] = [];
    for (const [n, path] of [lender, one, other, lender, other, one, lender].entries()) {
      took.push(await answers(path, n));
    }
    t.diagnostic(`the calls took ${took.join(", ")} ms`);
  });

  test("a platform that stands still makes no room, and holds nobody up when its endpoints have gone elsewhere", async (t) => {
    const { first, others, of, answers } = await withMachine(t, servers, "room_stopped", 1);
    const [second] = others;
    const [own, other] = of.map(([path]) => path!) as [string, string];
    await answers(other, 1);
    process.kill(second!.pid, "SIGSTOP");
    try {
      t.diagnostic(`the call took ${await answers(own, 2)} ms`);
    } finally {
      process.kill(second!.pid, "SIGCONT");
    }
    await shared(
      first.dataDir,
      [first, second!].map(({ url }) => url),
    );
    await answers(other, 3);
    await answers(own, 4);
  });
});
