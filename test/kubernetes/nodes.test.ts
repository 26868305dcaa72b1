/**
 * The whole on a real cluster of two nodes: the chart installed with Helm, the platform and its hosts as Pods of the platform's image, a function
 * that is deployed and called, a node that loses its power, kubectl drain, an API server that is away, and nothing left after uninstalling.
 */
// May take 60 minutes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { type Job, LONG_MS } from "./installation.ts";
import { callsUntil, folderAsVolume, KEEP, onNodes, WHERE } from "./on-nodes.ts";

const APP = `${WHERE}
@Endpoint(name="cold", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1)
def cold(n):
    return {"n": n + 1, "pid": os.getpid()}
`;
const FILES = `${KEEP}
@Endpoint(name="look", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, volumes={"/mnt/notes": Volume("notes", read_only=True)})
def look():
    with open("/mnt/notes/note.txt") as file:
        text = file.read()
    try:
        open("/mnt/notes/other.txt", "w")
        wrote = True
    except OSError:
        wrote = False
    return {"text": text, "wrote": wrote, "pod": os.uname().nodename, "there": os.listdir("/mnt")}
`;
const IMAGE = `
from svc import Endpoint, Image

@Endpoint(name="other", cpu="cpu3c-1-2", workers=(0, 1), image=Image.debian().apt("git"))
def other():
    return 1
`;
const HOSTS = { grace: 120, disk: 2, pools: [{ name: "small", cpu: 1, memory: 2, warm: 1, max: 3 }] };
/** Long enough that nothing goes on by chance. */
const AWAY_MS = 60_000;

await onNodes("On a cluster of two nodes", "1", (on) => {
  const told = (error: unknown) => on.told(error);

  test("Installed with Helm, it takes a deploy and runs the function in a Pod that it made, as an ordinary user", async (t) => {
    const began = performance.now();
    await folderAsVolume(on, "shared");
    await on.install({ hosts: HOSTS, volumes: { size: "1Gi", storageClass: "shared" } });
    await on.deploy(APP);
    const { n, pod, uid } = await on.call("where", { n: 1 });
    t.diagnostic(`from helm install to the first result: ${((performance.now() - began) / 1000).toFixed(1)} s`);
    assert.deepEqual([n, uid], [2, 7878]);
    const names = (await on.hosts()).map(({ metadata }) => metadata.name);
    assert.ok(names.includes(pod), `${pod} of ${names}`);
    await on.helmTest();
  });

  test("While the API server is away for a minute calls go on and workers start in Pods that are there, also after the platform was killed", async (t) => {
    const { send, place } = await on.endpoint("cold");
    const start = async () => {
      const answer = await send(`${place}/runsync?wait=120000`, { input: { n: 1 } });
      assert.deepEqual([answer.status, answer.output?.n], ["COMPLETED", 2], JSON.stringify(answer));
      return answer.output.pid as number;
    };
    await start();
    await on.cluster.server.down();
    try {
      const pids = new Set<number>();
      const starts = async () => {
        for (const end = performance.now() + AWAY_MS; performance.now() < end; await delay(4_000))
          pids.add(await start());
      };
      const { count } = await callsUntil(on, starts());
      assert.ok(pids.size > 5, `${[...pids]}`);
      t.diagnostic(`${count} calls and ${pids.size} starts of workers without an API server`);
      process.kill(await on.platformPid(), "SIGKILL");
      await eventually(() => start(), LONG_MS);
      const { send: again, place: where } = await on.endpoint("where");
      const { output } = await again(`${where}/runsync?wait=120000`, { input: { n: 1 } });
      assert.equal(output?.n, 2);
    } finally {
      await on.cluster.server.up();
    }
    await eventually(async () => {
      const { code, stdout, stderr } = await on.svc(["status"]);
      assert.equal(code, 0, stderr);
      assert.doesNotMatch(stdout + stderr, /API server/);
    }, LONG_MS).catch(told);
  });

  test("Files of a volume are there for Pods of several endpoints, and for svc volume; no other Pod has them", async (t) => {
    await on.deploy(FILES, "files");
    const kept = await on.call("keep", { text: "hello" });
    const { pod, ...seen } = await on.call("look", {});
    assert.deepEqual(seen, { text: "hello", wrote: false, there: ["notes"] });
    assert.notEqual(pod, kept.pod);
    const nodeOf = async (name: string) =>
      (await on.hosts()).find(({ metadata }) => metadata.name === name)?.spec.nodeName ?? "a node that was left";
    t.diagnostic(`written on ${await nodeOf(kept.pod)}, read on ${await nodeOf(pod)}`);
    const { stdout, stderr } = await on.svc(["volume", "ls", "notes"], "files");
    assert.match(stdout, /note\.txt/, stderr);
    const others = (await on.hosts()).filter(({ metadata }) => metadata.annotations?.["svc/holder"] === undefined);
    assert.ok(others.length > 0);
    assert.doesNotMatch(JSON.stringify(others.map(({ spec }) => spec)), /persistentVolumeClaim/);
  });

  test("What Pods cannot run is refused in words by the deploy", async () => {
    await assert.rejects(
      on.deploy(IMAGE, "image"),
      /image=Image\(…\) has to be built, and Pods run images that are there/,
    );
  });

  test("kubectl drain under calls: none fails, what runs finishes, and the next ones run on the other node", async (t) => {
    const { apart: drained, jobs } = await on.hostsApart("where", { n: 5, seconds: 5 });
    const [status] = jobs as [Job];
    const drain = ["drain", `n${drained}`, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s"];
    const { count, pod } = await callsUntil(on, on.control(...drain)).catch(told);
    t.diagnostic(`${count} calls while a node was drained`);
    const { status: now, output, retries = 0 } = await status();
    assert.deepEqual([now, output?.n, retries], ["COMPLETED", 6, 0]);
    const host = (await on.hosts()).find(({ metadata }) => metadata.name === pod);
    assert.notEqual(host?.spec.nodeName, `n${drained}`, pod);
    await on.control("uncordon", `n${drained}`);
  });

  test("The job of a node that loses its power runs once more in a Pod of the other node", async (t) => {
    const { apart: lost, jobs } = await on.hostsApart("where", { n: 7, seconds: 20 });
    const [status] = jobs as [Job];
    const { workerId: before } = await status();
    const there = new Set((await on.hosts()).map(({ metadata }) => metadata.uid));
    const at = performance.now();
    await on.cluster.node(lost, "crash");
    await eventually(async () => {
      const { status: now, workerId } = await status();
      assert.ok(["IN_PROGRESS", "COMPLETED"].includes(now) && workerId !== before, `${now} ${workerId}`);
    }, LONG_MS).catch(told);
    t.diagnostic(
      `from the node's loss until its job runs elsewhere: ${((performance.now() - at) / 1000).toFixed(1)} s`,
    );
    await eventually(async () => assert.equal((await status()).status, "COMPLETED"), LONG_MS).catch(told);
    const { output, retries } = await status();
    assert.deepEqual([output.n, retries], [8, 1]);
    // The scheduler takes a node to be ready for a while after it is gone.
    for (const { metadata, spec } of await on.hosts())
      if (!there.has(metadata.uid)) assert.notEqual(spec.nodeName, `n${lost}`, metadata.name);
  });

  test("After uninstalling nothing is left but the keys and the files of volumes", async () => {
    await on.uninstall();
    const { server } = on.cluster;
    const names = async (kind: string) => {
      type Item = { metadata: { name: string; deletionTimestamp?: string } };
      const { items } = await server.done("GET", kind);
      // What was on the node that is gone only its kubelet could tell of.
      return (items as Item[])
        .filter((one) => one.metadata.deletionTimestamp === undefined)
        .map((one) => one.metadata.name);
    };
    const core = "/api/v1/namespaces/apps";
    await eventually(async () => assert.deepEqual(await names(`${core}/pods`), []), LONG_MS);
    assert.deepEqual(await names(`${core}/secrets`), ["svc-first-key", "svc-sealing"]);
    assert.deepEqual(await names(`${core}/persistentvolumeclaims`), ["svc-volumes"]);
    const kinds = ["services", "configmaps", "serviceaccounts"].map((kind) => `${core}/${kind}`);
    const groups = ["apps/v1/namespaces/apps/deployments", "rbac.authorization.k8s.io/v1/namespaces/apps/roles"];
    const policies = [
      "policy/v1/namespaces/apps/poddisruptionbudgets",
      "networking.k8s.io/v1/namespaces/apps/networkpolicies",
    ];
    for (const kind of [...kinds, ...[...groups, ...policies].map((one) => `/apis/${one}`)])
      assert.deepEqual(
        (await names(kind)).filter((name) => !["kube-root-ca.crt", "default"].includes(name)),
        [],
        kind,
      );
  });
});
