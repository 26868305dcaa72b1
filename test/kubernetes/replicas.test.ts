/**
 * Several Pods of the platform on a real cluster of two nodes: one has the database and the others wait, or all of them share the endpoints. The
 * owner is killed under calls, a node is cut off, the release is upgraded under calls, all are told to end at once; and where a volume is of one
 * node alone, Pods with volumes run there.
 */
// May take 60 minutes.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { type Installation, isReadyPod, type Job, LONG_MS } from "./installation.ts";
import { callsUntil, folderAsVolume, KEEP, onNodes, WHERE } from "./on-nodes.ts";

/** What runs may take longer to end than any test here waits: nothing that is idle may. */
const HOSTS = { grace: 600, disk: 2, pools: [{ name: "small", cpu: 1, memory: 2, warm: 1, max: 3 }] };
const platform = (replicas: number, env: Record<string, string> = {}) => ({
  platform: { replicas, disk: 2, env, resources: { requests: { cpu: "100m", memory: "256Mi" } } },
});
const JOBS = 20;
/** A kubelet kills what has not ended by then (terminationGracePeriodSeconds of deploy/helm/svc/templates/platform.yaml). */
const GRACE_MS = 150_000;

async function completed(on: Installation, jobs: readonly Job[]): Promise<void> {
  const all = async () => {
    for (const status of jobs) assert.equal((await status()).status, "COMPLETED");
  };
  await eventually(all, LONG_MS).catch((error) => on.told(error));
}

/** Kills the platform of this Pod under calls: every job that was taken has its result. */
async function killed(on: Installation, t: TestContext, pod: string): Promise<void> {
  const pid = await on.platformPid(pod);
  const jobs: Job[] = [];
  let unanswered = 0;
  // Until its kubelet has seen its end, calls go to the killed one too. Whose connection ended with it does not know of its job.
  const call = (n: number) =>
    on.run("where", { n, seconds: 0.2 }).catch((error) => {
      unanswered++;
      throw error;
    });
  for (let n = 0; n < JOBS; n++) {
    if (n === JOBS / 4) process.kill(pid, "SIGKILL");
    jobs.push(await eventually(() => call(n), LONG_MS));
  }
  t.diagnostic(`${jobs.length} jobs were taken, ${unanswered} calls had no answer`);
  await completed(on, jobs);
  // It may be the same again: its container is started anew.
  await eventually(async () => assert.ok(await on.owner()), LONG_MS);
}

/** The node of the hosts is cut off with a Pod of the platform: its jobs run once more on the other, and when it is back all is as before. */
async function cutOff(on: Installation, t: TestContext): Promise<void> {
  const inputs = Array.from({ length: 4 }, (_, n) => ({ n, seconds: 20 }));
  const { apart: lost, jobs } = await on.hostsApart("where", ...inputs);
  const all = () => Promise.all(jobs.map((status) => status()));
  const [{ workerId: before }] = await all();
  const at = performance.now();
  await on.cluster.node(lost, "unplug");
  try {
    await eventually(async () => {
      for (const { status, workerId } of await all())
        assert.ok(["IN_PROGRESS", "COMPLETED"].includes(status) && workerId !== before, `${status} ${workerId}`);
    }, LONG_MS).catch((error) => on.told(error));
    t.diagnostic(`from the cut until all jobs run elsewhere: ${((performance.now() - at) / 1000).toFixed(1)} s`);
    await completed(on, jobs);
  } finally {
    await on.cluster.node(lost, "plug");
  }
  await eventually(async () => {
    const ready = (await on.platformPods()).filter(isReadyPod);
    assert.equal(ready.length, 3);
  }, LONG_MS).catch((error) => on.told(error));
}

/** All Pods are replaced under calls, of which none fails. */
async function upgraded(on: Installation, t: TestContext, env: Record<string, string>): Promise<void> {
  const all = on.upgrade({ ...platform(3, { ...env, SVC_UPGRADED: "1" }), hosts: HOSTS });
  const { count } = await callsUntil(on, all).catch((error) => on.told(error));
  t.diagnostic(`${count} calls while three Pods were replaced`);
}

/** No Pod is left, before any has to be killed. */
async function uninstalled(on: Installation, t: TestContext): Promise<void> {
  const at = performance.now();
  await on.uninstall();
  await eventually(
    async () => assert.deepEqual([await on.platformPods(), await on.hosts()], [[], []]),
    GRACE_MS - (performance.now() - at),
  ).catch((error) => on.told(error));
  t.diagnostic(`${((performance.now() - at) / 1000).toFixed(1)} s until all Pods had ended`);
}

await onNodes("Several Pods of the platform", "1", (on) => {
  for (const [kind, env] of [
    ["of which one has the database", {}],
    ["that share the endpoints", { SVC_SHARE_SHARDS: "1" }],
  ] as const) {
    test(`Pods ${kind} are installed, and their endpoint runs`, async () => {
      await on.install({ ...platform(3, env), hosts: HOSTS });
      await on.deploy(WHERE);
      await on.call("where", { n: 1 });
    });

    test(`kill -9 of the owner of Pods ${kind}, under calls: every job that was taken has its result`, async (t) => {
      await killed(on, t, await on.owner());
    });

    test(`A node that is cut off with Pods ${kind}: its jobs run once more on the other node`, (t) => cutOff(on, t));

    test(`helm upgrade of Pods ${kind}, under calls: none fails`, (t) => upgraded(on, t, env));

    test(`helm uninstall of Pods ${kind}: all end within their graces`, (t) => uninstalled(on, t));
  }

  test("With a volume of one node, Pods that have it run on the node of the platform's Pod", async (t) => {
    await folderAsVolume(on, "local", "n2");
    const volumes = { size: "1Gi", storageClass: "local", accessMode: "ReadWriteOnce" };
    await on.install({ ...platform(1), hosts: HOSTS, volumes });
    await on.deploy(KEEP, "files");
    const { pod } = await on.call("keep", { text: "hello" });
    const host = (await on.hosts()).find(({ metadata }) => metadata.name === pod);
    const [one] = await on.platformPods();
    assert.deepEqual([one.spec.nodeName, host?.spec.nodeName], ["n2", "n2"]);
    assert.match(JSON.stringify(host.spec.affinity), /podAffinity/);
    const { stdout, stderr } = await on.svc(["volume", "ls", "notes"], "files");
    assert.match(stdout, /note\.txt/, stderr);
    await uninstalled(on, t);
  });
});
