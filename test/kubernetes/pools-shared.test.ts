/** Several platforms that share endpoints, with pools of Pods beside a real API server: the kubelet is played, agents and workers are real. */
// May take 10 minutes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { lacksServers } from "../campaign/platforms.ts";
import { leadsTo, type ReplicaServers, type Replicas, seenBy, startReplicas, startServers } from "../e2e/replicas.ts";
import { ownersOf } from "../e2e/sharing.ts";
import { eventually } from "../eventually.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { startInCluster } from "./installed.ts";

const COUNT = 6;
const WORKER = `
from svc import Endpoint

${Array.from(
  { length: COUNT },
  (_, n) => `
@Endpoint(name="plus-${n}", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=2)
def plus_${n}(x):
    return x + 1
`,
).join("")}`;
const POOL = { name: "small", cpu: 2, memory: 4, warm: 0, idle: 600, max: 3 };

const found = findKubernetes();
const skip = "missing" in found ? found.missing : await lacksServers();

describe("Pods as hosts of platforms that share endpoints", { skip }, () => {
  let server: ApiServer;
  let servers: ReplicaServers;
  before(async () => {
    if ("program" in found) server = await ApiServer.start(found.program);
    servers = await startServers();
  });
  after(async () => {
    await Promise.all([server?.stop(), servers?.stop()]);
  });

  test("They run the workers of each, and go on when the platform that made them is killed", async (t) => {
    let replicas!: Replicas;
    let url = "";
    const { pods } = await startInCluster(
      t,
      server,
      [POOL],
      { platform: () => url },
      { SVC_SHARE_SHARDS: "1" },
      {},
      async (of, env) => {
        replicas = await startReplicas(of, servers, "pods_shared", env);
        return replicas.first;
      },
    );
    const { first, call } = replicas;
    const second = await replicas.another();
    url = await leadsTo(t, [first, second]);
    await eventually(async () => {
      const seen = await seenBy(second.dataDir);
      assert.equal(seen.filter(({ shards }) => shards > 0).length, 2, JSON.stringify(seen));
    });
    const paths = await replicas.deploy(WORKER);
    const answers = async (x: number) => {
      for (let n = 0; n < COUNT; n++) {
        const { json, text } = await call(second, `${paths[`plus-${n}`]}/runsync`, { body: { input: { x } } });
        assert.equal(json.output, x + 1, text);
      }
    };
    await answers(1);
    const owners = [...(await ownersOf(replicas, servers.postgres, "pods_shared")).values()];
    const ofSecond = owners.filter((url) => url === second.url).length;
    t.diagnostic(`${ofSecond} of ${COUNT} endpoints are the second's`); // Chance may give it none.
    await eventually(() => {
      const starts = second.said.filter((line) => line.includes("worker started")).length;
      assert.ok(starts >= ofSecond, `${starts} workers began for ${ofSecond} endpoints of the second`);
    });
    const made = (await pods()).map(({ metadata }) => metadata.name);
    assert.ok(made.length >= 1 && made.length <= POOL.max, made.join(", "));
    await first.kill();
    await answers(2);
    const left = (await pods()).map(({ metadata }) => metadata.name);
    assert.ok(
      made.some((name) => left.includes(name)),
      `${left.join(", ")}: its Pods are taken over`,
    );
  });
});
