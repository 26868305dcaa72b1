/** Tests of the chart on a cluster of two nodes, and what several of them have in common. */
import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync } from "node:fs";
import path from "node:path";
import { after, before, describe } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { findInstallation, Installation } from "./installation.ts";

/** Runs on whichever Pod it is. */
export const WHERE = `
import os, time
from svc import Endpoint

@Endpoint(name="where", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600, max_concurrency=4)
def where(n, seconds=0):
    time.sleep(seconds)
    return {"n": n + 1, "pod": os.uname().nodename, "uid": os.getuid()}
`;
/** Writes a file to a volume. */
export const KEEP = `
import os
from svc import Endpoint, Volume

@Endpoint(name="keep", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, volumes={"/data": Volume("notes")})
def keep(text):
    with open("/data/note.txt", "w") as file:
        file.write(text)
    return {"pod": os.uname().nodename}
`;

/**
 * Installed by the first test. Ten minutes of a machine, as root, with networks of its own, not beside all other tests: `make test-cluster` runs
 * them, those of each value of SVC_TEST_NODES for themselves.
 */
export async function onNodes(
  title: string,
  wanted: "1" | "images" | "network",
  tests: (on: Installation) => void,
): Promise<void> {
  const isWanted = process.env.SVC_TEST_NODES === wanted;
  const found = isWanted ? await findInstallation() : { missing: "make test-cluster runs it" };
  if ("missing" in found) {
    describe(title, { skip: found.missing }, () => {});
    return;
  }
  describe(title, { timeout: 3_300_000 }, () => {
    const on = new Installation(found);
    before(() => on.start(), { timeout: 2_400_000 });
    after(() => on.stop());
    tests(on);
  });
}

/** Calls one after the other until `done` is; every one has to succeed. Resolves the last Pod's name and how many there were. */
export async function callsUntil(on: Installation, done: Promise<unknown>): Promise<{ count: number; pod: string }> {
  let isOver = false;
  const over = done.finally(() => {
    isOver = true;
  });
  over.catch(() => {});
  let [count, pod] = [0, ""];
  do {
    // Whose address it is may change meanwhile.
    const { send, place } = await on.endpoint("where");
    const answer = await send(`${place}/runsync?wait=120000`, { input: { n: ++count } });
    assert.deepEqual([answer.status, answer.output?.n], ["COMPLETED", count + 1], JSON.stringify(answer));
    pod = answer.output.pod;
    await delay(50);
  } while (!isOver);
  await over;
  return { count, pod };
}

/** A folder of this machine as a volume for claims of the class `name`: of all nodes, or as a disk of one. */
export async function folderAsVolume(on: Installation, name: string, node?: string): Promise<void> {
  const at = path.join(on.folder, name);
  mkdirSync(at);
  chownSync(at, 7878, 7878);
  chmodSync(on.folder, 0o755);
  const term = { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [node] }] };
  const spec = {
    ...{ capacity: { storage: "1Gi" }, storageClassName: name, persistentVolumeReclaimPolicy: "Retain" },
    ...(node === undefined
      ? { accessModes: ["ReadWriteMany"], hostPath: { path: at, type: "Directory" } }
      : {
          ...{ accessModes: ["ReadWriteOnce"], local: { path: at } },
          nodeAffinity: { required: { nodeSelectorTerms: [term] } },
        }),
  };
  await on.cluster.server.done("POST", "/api/v1/persistentvolumes", { metadata: { name }, spec });
}
