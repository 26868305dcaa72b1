/**
 * Nodes that are gone, or whose kubelets stand still, before Kubernetes knows: beside a real API server, with the kubelets and the scheduler
 * played. test/kubernetes/nodes.test.ts has real ones.
 */
// May take 10 minutes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { project } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { startInCluster } from "./installed.ts";

const APP = `
from svc import Endpoint

@Endpoint(name="plus", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1)
def plus(n):
    return n + 1
`;
const POOL = { name: "small", cpu: 2, memory: 4, warm: 1, idle: 600, max: 4 };
const NODES = { nodes: ["n1", "n2"] };
const LONG_MS = 240_000;

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;

describe("Nodes that are lost before Kubernetes knows", { skip }, () => {
  let server: ApiServer;
  before(async () => {
    if ("program" in found) server = await ApiServer.start(found.program);
  });
  after(() => server?.stop());

  test("The Pod in place of one on a lost node is kept from that node, and takes the next calls; later ones are not kept from a node that is heard again", async (t) => {
    const { platform, pods, joined, hosts, kubelet, where } = await startInCluster(t, server, [POOL], NODES);
    const [{ name: first } = { name: "" }] = await joined(1);
    const nodeOf = async (name: string) => (await pods()).find(({ metadata }) => metadata.name === name)?.spec.nodeName;
    assert.equal(await nodeOf(first), "n1");
    kubelet.dead.add("n1");
    kubelet.agent(first)!.child.kill("SIGSTOP");
    t.after(() => kubelet.agent(first)?.child.kill("SIGCONT"));
    const [second] = await eventually(async () => {
      const others = (await pods()).filter(({ metadata }) => metadata.name !== first);
      assert.equal(others.length, 1);
      return others;
    }, LONG_MS);
    const { nodeAffinity } = second.spec.affinity;
    assert.deepEqual(nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms, [
      { matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n1"] }] },
    ]);
    const dir = project(t, { "app.py": APP });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr + kubelet.said);
    assert.equal((await platform.svc(["call", "plus", "n=1"], { cwd: dir })).stdout.trim(), "2");
    for (const { metadata, spec } of await pods())
      if (metadata.name !== first) assert.equal(spec.nodeName, "n2", metadata.name);
    kubelet.dead.delete("n1");
    kubelet.agent(first)?.child.kill("SIGCONT");
    await eventually(async () => {
      const one = (await hosts()).find(({ name }) => name === first);
      assert.ok(one === undefined || one.state === "joined", one?.state);
    }, LONG_MS);
    const before = (await pods()).map(({ metadata }) => metadata.name);
    for (const name of before) await server.ask("DELETE", `${where}/pods/${name}`);
    await eventually(async () => {
      const later = (await pods()).filter(({ metadata }) => !before.includes(metadata.name));
      // Its link is there, but the platform may not have heard it yet: what was made by then is made anew.
      for (const { metadata, spec } of later) {
        if (spec.affinity !== undefined) await server.ask("DELETE", `${where}/pods/${metadata.name}`);
      }
      assert.deepEqual(
        later.map(({ spec }) => [spec.affinity, spec.nodeName]),
        [[undefined, "n1"]],
      );
    }, LONG_MS);
  });

  test("A Pod on a node whose kubelet does not begin it is given up, and another is made elsewhere", async (t) => {
    const { pods, joined } = await startInCluster(t, server, [POOL], { ...NODES, dead: ["n1"] });
    const [there] = await joined(1, undefined, LONG_MS);
    const all = await pods();
    const seen = all.map(({ metadata, spec }) => [spec.nodeName, metadata.deletionTimestamp !== undefined]);
    assert.deepEqual(seen.sort(), [
      ["n1", true],
      ["n2", false],
    ]);
    assert.equal(all.find(({ spec }) => spec.nodeName === "n2").metadata.name, there?.name);
  });
});
