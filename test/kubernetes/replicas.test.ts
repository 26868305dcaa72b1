/**
 * Several Pods of the platform on a real cluster of two nodes: one has the database, the others wait and take calls. The owner is killed under
 * calls, the release is upgraded under calls; and where a volume is of one node alone, Pods with volumes run there.
 */
// May take 60 minutes.
import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { findInstallation, Installation, LONG_MS } from "./installation.ts";

const APP = `
import os, time
from svc import Endpoint

@Endpoint(name="where", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600, max_concurrency=4)
def where(n, seconds=0):
    time.sleep(seconds)
    return {"n": n + 1, "pod": os.uname().nodename}
`;
const FILES = `
import os
from svc import Endpoint, Volume

@Endpoint(name="keep", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, volumes={"/data": Volume("notes")})
def keep(text):
    with open("/data/note.txt", "w") as file:
        file.write(text)
    return {"pod": os.uname().nodename}
`;
const HOSTS = { grace: 60, disk: 2, pools: [{ name: "small", cpu: 1, memory: 2, warm: 1, max: 3 }] };
const platform = (replicas: number, env: Record<string, string> = {}) => ({
  platform: { replicas, disk: 2, env, resources: { requests: { cpu: "100m", memory: "256Mi" } } },
});
const JOBS = 20;

const isWanted = process.env.SVC_TEST_NODES === "1";
const found = isWanted ? await findInstallation() : { missing: "make test-cluster runs it" };
const skip = "missing" in found ? found.missing : false;

describe("Several Pods of the platform", { skip, timeout: 3_300_000 }, () => {
  let on: Installation;
  before(
    async () => {
      assert.ok("helm" in found);
      on = await Installation.start(found);
      await on.install({ ...platform(3), hosts: HOSTS });
      await on.deploy(APP);
      await on.call("where", { n: 1 });
    },
    { timeout: 2_400_000 },
  );
  after(() => on?.stop());

  test("kill -9 of the one that has the database under calls: every job that was taken has its result", async (t) => {
    const owner = await on.owner();
    const pid = await on.platformPid(owner);
    const ids: string[] = [];
    let inVain = 0;
    const taken = async (n: number) => {
      const { send, place } = await on.endpoint("where");
      return (await send(`${place}/run`, { input: { n, seconds: 0.2 } })).id as string | undefined;
    };
    for (let n = 0; n < JOBS; n++) {
      if (n === JOBS / 4) process.kill(pid, "SIGKILL");
      // Whose connection ended with the killed one does not know.
      const id = await taken(n).catch(() => undefined);
      if (id === undefined) inVain++;
      else ids.push(id);
    }
    t.diagnostic(`${ids.length} jobs were taken, ${inVain} calls had no answer`);
    assert.ok(ids.length >= JOBS / 2);
    await eventually(async () => {
      const { send, place } = await on.endpoint("where");
      for (const id of ids) assert.equal((await send(`${place}/status/${id}`)).status, "COMPLETED");
    }, LONG_MS).catch((error) => on.told(error));
    // It may be the same again: its container is started anew.
    await eventually(async () => assert.ok(await on.owner()), LONG_MS);
  });

  test("helm upgrade under calls: none fails", async (t) => {
    let isOver = false;
    const upgraded = on.upgrade({ ...platform(3, { SVC_UPGRADED: "1" }), hosts: HOSTS }).finally(() => {
      isOver = true;
    });
    upgraded.catch(() => {});
    let count = 0;
    while (!isOver) {
      const { send, place } = await on.endpoint("where");
      const answer = await send(`${place}/runsync?wait=120000`, { input: { n: ++count } });
      assert.deepEqual([answer.status, answer.output?.n], ["COMPLETED", count + 1], JSON.stringify(answer));
      await delay(50);
    }
    await upgraded;
    t.diagnostic(`${count} calls while three Pods were replaced`);
    assert.ok(count > 0);
  });

  test("With a volume of one node, Pods that have it run on the node of the platform's Pod", async () => {
    await on.uninstall();
    await eventually(async () => assert.deepEqual([await on.platformPods(), await on.hosts()], [[], []]), LONG_MS);
    await ofOneNode(on);
    const volumes = { size: "1Gi", storageClass: "local", accessMode: "ReadWriteOnce" };
    await on.install({ ...platform(1), hosts: HOSTS, volumes });
    await on.deploy(FILES, "files");
    const { pod } = await on.call("keep", { text: "hello" });
    const host = (await on.hosts()).find(({ metadata }) => metadata.name === pod);
    const [one] = await on.platformPods();
    assert.deepEqual([one.spec.nodeName, host?.spec.nodeName], ["n2", "n2"]);
    assert.match(JSON.stringify(host.spec.affinity), /podAffinity/);
    const { stdout, stderr } = await on.svc(["volume", "ls", "notes"], "files");
    assert.match(stdout, /note\.txt/, stderr);
  });
});

/** A folder as a disk of n2. */
async function ofOneNode(on: Installation): Promise<void> {
  const at = path.join(on.folder, "disk");
  mkdirSync(at);
  chownSync(at, 7878, 7878);
  chmodSync(on.folder, 0o755);
  const term = { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: ["n2"] }] };
  const spec = {
    ...{ capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"], storageClassName: "local" },
    ...{ persistentVolumeReclaimPolicy: "Retain", local: { path: at } },
    nodeAffinity: { required: { nodeSelectorTerms: [term] } },
  };
  await on.cluster.server.done("POST", "/api/v1/persistentvolumes", { metadata: { name: "disk" }, spec });
}
