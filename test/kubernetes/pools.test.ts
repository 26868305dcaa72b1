/** A platform whose hosts are Pods, beside a real API server: the kubelet is played, agents and workers are real. */
// May take 10 minutes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { project } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { startInCluster } from "./installed.ts";

const APP = (name: string) => `
from svc import Endpoint

@Endpoint(name="${name}", cpu="cpu3c-1-2", workers=(0, 2), idle_timeout=1)
def run(n):
    return n + 1
`;
const POOL = { name: "small", cpu: 2, memory: 4, warm: 0, idle: 600, max: 3 };

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;

describe("Pods as hosts", () => {
  let server: ApiServer;
  before(async () => {
    if ("program" in found) server = await ApiServer.start(found.program);
  });
  after(() => server?.stop());

  test("A deploy and a call make a Pod, whose agent proves itself by its service account's token", {
    skip,
  }, async (t) => {
    const { platform, pods, joined, kubelet, namespace } = await startInCluster(t, server, [POOL]);
    assert.deepEqual(await pods(), [], "nobody needs one");
    const dir = project(t, { "app.py": APP("plus") });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr + kubelet.said);
    const called = await platform.svc(["call", "plus", "n=1"], { cwd: dir });
    assert.equal(called.stdout.trim(), "2", called.stderr);
    const [pod] = await pods();
    assert.equal((await joined(1))[0]!.name, pod.metadata.name);
    const [owner] = pod.metadata.ownerReferences;
    assert.deepEqual([owner.kind, owner.name, owner.controller], ["ConfigMap", "svc-hosts", true]);
    assert.deepEqual(pod.spec.containers[0].resources.requests, pod.spec.containers[0].resources.limits);
    assert.doesNotMatch(JSON.stringify(pod.spec), /svch_|svc_[A-Za-z0-9]{8}/, "no secret stands in it");
    assert.match(kubelet.said, /"joined"/);
    await eventually(async () => {
      const { stdout } = await platform.svc(["platform", "status", "--data-dir", platform.dataDir]);
      assert.match(stdout, /^Pool {5}small: 1 of 3 Pods, 1 joined$/m);
    });
    assert.ok(namespace);
  });

  test("A warm Pod is held for the first environment that needs it; another environment gets another; one that was idle is deleted", {
    skip,
  }, async (t) => {
    const { platform, pods, joined, hosts } = await startInCluster(t, server, [{ ...POOL, warm: 1, idle: 4 }]);
    const [warm] = await joined(1);
    const one = project(t, { "app.py": APP("one") });
    const two = project(t, { "app.py": APP("two") });
    assert.equal((await platform.svc(["deploy", "--env", "first"], { cwd: one })).code, 0);
    assert.equal((await platform.svc(["call", "one", "n=1", "--env", "first"], { cwd: one })).stdout.trim(), "2");
    assert.equal((await platform.svc(["deploy", "--env", "second"], { cwd: two })).code, 0);
    assert.equal((await platform.svc(["call", "two", "n=2", "--env", "second"], { cwd: two })).stdout.trim(), "3");
    const seen = new Map<string, Set<string>>();
    for (const { name, workers } of await hosts()) {
      for (const { endpoint } of workers) seen.set(name, (seen.get(name) ?? new Set()).add(endpoint));
    }
    for (const [name, endpoints] of seen) assert.equal(endpoints.size, 1, `${name} runs ${[...endpoints]}`);
    await eventually(async () => {
      const names = (await pods()).map(({ metadata }) => metadata.name);
      assert.ok(!names.includes(warm!.name), "it was used: it does not come back to the warm ones");
      assert.equal(names.length, 1, "one is warm");
    });
    assert.equal((await hosts()).length, 1, "hosts of Pods that are gone are forgotten");
  });

  test("What is refused or has no room is said where people look: quota, no node, no image", { skip }, async (t) => {
    const held = {
      phase: "Pending",
      conditions: [
        {
          type: "PodScheduled",
          status: "False",
          reason: "Unschedulable",
          message: "0/2 nodes are available: 2 Insufficient cpu.",
        },
      ],
    };
    const { platform, where, pods } = await startInCluster(t, server, [{ ...POOL, max: 1 }], { held: () => held });
    await server.done("POST", `${where}/resourcequotas`, { metadata: { name: "none" }, spec: { hard: { pods: "0" } } });
    await server.done(
      "PATCH",
      `${where}/resourcequotas/none/status`,
      { status: { hard: { pods: "0" }, used: { pods: "0" } } },
      { type: "application/merge-patch+json" },
    );
    const dir = project(t, { "app.py": APP("waits") });
    const deploying = platform.svc(["deploy"], { cwd: dir });
    const says = async (wanted: RegExp) => {
      await eventually(async () => {
        const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
        assert.match(stdout + stderr, wanted);
      });
    };
    await says(/The pool small gets no further Pods: .*exceeded quota: none/);
    await server.done("DELETE", `${where}/resourcequotas/none`);
    await says(
      /waits for its Pod svc-small-\w+: no node has room for it: Unschedulable: 0\/2 nodes are available: 2 Insufficient cpu/,
    );
    assert.equal((await pods()).length, 1);
    await eventually(async () => {
      const { stdout } = await platform.svc(["platform", "status", "--data-dir", platform.dataDir]);
      assert.match(
        stdout,
        /^Pool {5}small: 1 of 1 Pods, 0 joined; no node has room for it: Unschedulable: 0\/2 nodes/m,
      );
    });
    await platform.stop();
    await deploying;
  });

  test("Where no node has room for a further Pod, an idle one that others have gives way to it", {
    skip,
  }, async (t) => {
    const { platform, pods } = await startInCluster(t, server, [POOL], { room: 1 });
    const dir = project(t, { "app.py": APP("one") });
    const call = async (env: string) => {
      assert.equal((await platform.svc(["deploy", "--env", env], { cwd: dir })).code, 0);
      const called = await platform.svc(["call", "one", "n=1", "--env", env], { cwd: dir });
      assert.equal(called.stdout.trim(), "2", called.stderr);
      return (await pods()).find(({ spec }) => spec.nodeName !== undefined).metadata.name;
    };
    const first = await call("first");
    assert.notEqual(await call("second"), first);
  });

  test("What no pool has ends the deploy in words: nobody waits for a Pod that will not be made", {
    skip,
  }, async (t) => {
    const { platform, pods } = await startInCluster(t, server, [POOL], {}, { SVC_EMULATE_GPU: "0" });
    const refused = async (wish: string, wanted: RegExp) => {
      const dir = project(t, { "app.py": APP("large").replace('cpu="cpu3c-1-2"', wish) });
      const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
      assert.equal(code, 1, stderr);
      assert.match(stderr, wanted);
    };
    await refused(
      'gpu="NVIDIA_L4"',
      /Endpoint "large": gpu= asks for a GPU of NVIDIA L4, which nothing here can give: the pool small has no GPU\. .*add a pool/s,
    );
    await refused(
      'cpu="cpu3c-1-2", hosts="elsewhere"',
      /large: No pool makes Pods.*no machine with the label "elsewhere"/s,
    );
    assert.deepEqual(await pods(), []);
    await refused(
      'cpu="cpu3c-1-2", system_dependencies=["bash", "no-such-package"]',
      /large: system_dependencies= needs no-such-package, which the image of the pools' Pods lacks, and nothing is installed there\. Name an image that has it.*image of the chart/s,
    );
    assert.deepEqual(
      await platform.endpoints().then((all) => all.map(({ name }) => name)),
      ["large"],
      "of the label's",
    );
  });

  test("A Pod that joins without the GPUs of its pool ends the deploy that waits for them, is told of, and is used for what needs none", {
    skip,
  }, async (t) => {
    const l4 = { ...POOL, name: "l4", memory: 8, gpu: 1, gpuType: "NVIDIA_L4" };
    const { platform, pods, joined } = await startInCluster(t, server, [l4], {}, { SVC_EMULATE_GPU: "0" });
    const dir = project(t, { "app.py": APP("large").replace('cpu="cpu3c-1-2"', 'gpu="NVIDIA_L4"') });
    const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(code, 1, stderr);
    assert.match(
      stderr,
      /large: gpu= asks for a GPU of NVIDIA L4, which nothing here can give: the pool l4 has no GPU in its Pod svc-l4-\w+, where the pool says 1 × NVIDIA L4\. .*add a pool/s,
    );
    await joined(1);
    const status = await platform.svc(["status"], { cwd: dir });
    assert.match(
      status.stdout + status.stderr,
      /The pool l4 has no GPU in its Pod svc-l4-\w+, where the pool says 1 × NVIDIA L4\. .*nodeSelector/,
    );
    const { stdout } = await platform.svc(["platform", "status", "--data-dir", platform.dataDir]);
    assert.match(stdout, /^Pool {5}l4: 1 of 3 Pods, 1 joined; it has no GPU in its Pod/m);
    const refused = await platform.svc(["deploy", "--app", "again"], { cwd: dir });
    assert.match(refused.stderr, /Endpoint "large": gpu= asks for a GPU of NVIDIA L4, which nothing here can give/);
    const small = project(t, { "app.py": APP("small") });
    const deployed = await platform.svc(["deploy", "--app", "small"], { cwd: small });
    assert.equal(deployed.code, 0, deployed.stderr);
    const called = await platform.svc(["call", "small", "n=1", "--app", "small"], { cwd: small });
    assert.equal(called.stdout.trim(), "2", called.stderr);
    assert.ok((await pods()).length >= 1);
  });
});
