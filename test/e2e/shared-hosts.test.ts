/** Platforms that share the endpoints of one database, and machines that joined: those hang on one of them, and run workers of all. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { joinable } from "./joined-hosts.ts";
import { type ReplicaServers, type Replicas, type Second, startReplicas, startServers } from "./replicas.ts";

const skip = await lacksServers();
const SHARES = { SVC_SHARE_SHARDS: "1", SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_LOCAL_WORKERS: "0" };
const ROOM = { SVC_CPU_OVERCOMMIT: "16", SVC_MEMORY_OVERCOMMIT: "16" };
const COUNT = 8;

const WORKER = `
import time
from svc import Endpoint

${Array.from(
  { length: COUNT },
  (_, n) => `
@Endpoint(name="double-${n}", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def double_${n}(x, seconds=0):
    time.sleep(seconds)
    return 2 * x
`,
).join("")}

web = Endpoint(name="web", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)

@web.post("/echo")
async def echo(text: str) -> dict:
    return {"text": text}
`;

/** Each of `platforms` has shards. */
async function shared(replicas: Replicas, dataDir: string, platforms: number): Promise<void> {
  await eventually(async () => {
    const seen = ((await replicas.status(dataDir)).replicas ?? []) as unknown as readonly { shards: number }[];
    assert.equal(seen.filter(({ shards }) => shards > 0).length, platforms, JSON.stringify(seen));
  });
}

async function two(t: TestContext, servers: ReplicaServers, database: string) {
  const replicas = await startReplicas(t, servers, database, SHARES);
  const second: Second = await replicas.another();
  await shared(replicas, second.dataDir, 2);
  const { join } = joinable(t, replicas.first);
  const { agent } = await join("one", { env: ROOM });
  const paths = await replicas.deploy(WORKER);
  const doubles = Array.from({ length: COUNT }, (_, n) => paths[`double-${n}`]!);
  return { replicas, second, agent, paths, doubles };
}

/** How many workers began for endpoints of this platform. */
const starts = ({ said }: Pick<Second, "said">) => said.filter((line) => line.includes("worker started")).length;

describe("platforms that share the endpoints, and machines that joined", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("one machine runs the workers of both, whoever is called", async (t) => {
    const { replicas, second, paths, doubles } = await two(t, servers, "hosts_shared");
    const { first, call } = replicas;
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
    const others = starts(second);
    t.diagnostic(`${others} of ${COUNT + 1} workers are of endpoints of the second`);
    assert.ok(others > 0 && others < COUNT + 1);
    const { hosts } = await first.query<{ hosts: { workers: { id: string }[] }[] }>("{ hosts { workers { id } } }");
    assert.equal(hosts[0]!.workers.length, COUNT + 1, "all are counted on it");
  });
});
