/**
 * The chart on a real cluster of two nodes on this machine (make test-cluster builds it): installed, called, workers started in a Pod that is
 * there while the API server refuses every write of the platform, five minutes without an API server, a node drained under calls, a node that loses
 * its power. Everything runs on the machine of the bench, nodes and servers too: what is measured is an upper bound.
 */
import { setTimeout as delay } from "node:timers/promises";
import { findInstallation, Installation } from "../test/kubernetes/installation.ts";
import { atMost, type Bench, median } from "./bench.ts";

const COLD_CALLS = 5;
const JOBS = 4;
const CALLERS = 2;
const AWAY_MS = 300_000;
const APP = `
import os, time
from svc import Endpoint

@Endpoint(name="where", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600, max_concurrency=8)
def where(n=1, seconds=0):
    time.sleep(seconds)
    return {"n": n, "pod": os.uname().nodename}

@Endpoint(name="cold", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def cold(n=1):
    return {"n": n}
`;
const HOSTS = { grace: 120, disk: 2, pools: [{ name: "small", cpu: 1, memory: 2, warm: 1, max: 3 }] };
const ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/apps/roles/svc";

export const bench: Bench = async ({ rounds, part }) => {
  const found = await findInstallation();
  if ("missing" in found) throw new Error(found.missing);
  const on = new Installation(found);
  await on.start();
  try {
    const began = performance.now();
    await on.install({ hosts: HOSTS });
    const ready = performance.now();
    await on.deploy(APP);
    await on.call("where", { n: 1 });
    const installMs = performance.now() - began;
    const isWanted = (one: string) => part === undefined || part === one;
    const cold = isWanted("cold") ? await coldStarts(on, rounds * COLD_CALLS) : [];
    const away = isWanted("away") ? await serverAway(on) : undefined;
    const drain = isWanted("drain") ? await drained(on) : undefined;
    const loss = isWanted("loss") ? await nodeLost(on) : undefined;
    const figures = {
      "helm install until the platform is ready, s": (ready - began) / 1000,
      "helm install until the first result, s": installMs / 1000,
      ...(cold.length > 0 && {
        "cold start, zygote there, p50 ms": median(cold),
        "cold start, zygote there, max ms": Math.max(...cold),
      }),
      ...(away && {
        "calls while the API server was away": away.answered.length,
        "of these failed": away.failed,
        "the longest of these, ms": Math.max(...away.answered),
        "workers started meanwhile": away.starts,
      }),
      ...(drain && {
        "calls while a node was drained": drain.answered.length,
        "of them failed": drain.failed,
        "longest of them, ms": Math.max(...drain.answered),
      }),
      ...(loss && { "node lost until all its jobs run elsewhere, s": loss.ms / 1000 }),
    };
    return {
      conditions: {
        cluster:
          "2 nodes, containerd and kubelet each, Kubernetes 1.35, one platform Pod, PostgreSQL and a bucket beside it",
        "cold start": `POST /runsync from the machine to the platform's Pod, ${cold.length} times; the platform's role has no create and no delete of Pods meanwhile`,
        "API server away": `killed for ${AWAY_MS / 60_000} minutes, ${CALLERS} callers of /runsync, and workers of another endpoint start one after the other`,
        drain: `kubectl drain of the node of the endpoint's Pod, ${CALLERS} callers of /runsync`,
        "node lost": `kubelet, containerd and all of its processes are killed and its network cut; ${JOBS} jobs run there`,
      },
      figures,
      bars: {
        "install until the first result": atMost(installMs / 1000, 90, " s"),
        ...(cold.length > 0 && { "cold start with API writes refused, p50": atMost(median(cold), 20, " ms") }),
        ...(away && { "calls that failed without an API server": atMost(away.failed, 0) }),
        ...(drain && { "calls that failed in the drain": atMost(drain.failed, 0) }),
        ...(loss && {
          "node lost until its jobs run elsewhere": atMost(loss.ms / 1000, 20, " s"),
          "jobs lost with the node": atMost(loss.lost, 0),
        }),
      },
    };
  } finally {
    await on.stop();
  }
};

/** Milliseconds of each. */
async function coldStarts(on: Installation, count: number): Promise<number[]> {
  const { send, place } = await on.endpoint("cold");
  await on.call("cold", { n: 1 });
  const { server } = on.cluster;
  const { rules } = await server.done("GET", ROLE);
  const merge = { type: "application/merge-patch+json" };
  const read = rules.map((rule: { verbs: string[] }) => ({
    ...rule,
    verbs: rule.verbs.filter((verb) => !["create", "delete"].includes(verb)),
  }));
  await server.done("PATCH", ROLE, { rules: read }, merge);
  const times: number[] = [];
  for (let n = 0; n < count; n++) times.push(await coldCall(send, place, n));
  await server.done("PATCH", ROLE, { rules }, merge);
  return times;
}

/** Milliseconds of a call that finds no worker. */
async function coldCall(send: Send, place: string, n: number): Promise<number> {
  await scaleTo(send, place, 0);
  await scaleTo(send, place, 1);
  const at = performance.now();
  const { status } = await send(`${place}/runsync?wait=120000`, { input: { n } });
  if (status !== "COMPLETED") throw new Error(`a job ended ${status}`);
  return performance.now() - at;
}

type Send = Awaited<ReturnType<Installation["endpoint"]>>["send"];

async function scaleTo(send: Send, place: string, workersMax: number): Promise<void> {
  const id = place.split("/").at(-1);
  await send("/graphql", {
    query: `mutation { saveEndpoint(input: { id: "${id}", workersMax: ${workersMax} }) { id } }`,
  });
  for (;;) {
    const { data } = await send("/graphql", { query: "{ myself { endpoints { id pods { id } } } }" });
    const { pods } = data.myself.endpoints.find((one: { id: string }) => one.id === id);
    if (workersMax > 0 || pods.length === 0) break;
    await delay(10);
  }
  await delay(50);
}

/** How long each call took, and how many had no result. */
interface Calls {
  readonly answered: number[];
  failed: number;
}

/** Calls of where, until what is done meanwhile has ended. */
async function callsDuring(on: Installation, done: () => Promise<unknown>): Promise<Calls> {
  const { send, place } = await on.endpoint("where");
  const calls: Calls = { answered: [], failed: 0 };
  let isOver = false;
  const caller = async () => {
    do {
      const at = performance.now();
      const answer = await send(`${place}/runsync?wait=120000`, { input: { n: 1 } }).catch(() => undefined);
      calls.answered.push(performance.now() - at);
      if (answer?.status !== "COMPLETED") calls.failed++;
      await delay(20);
    } while (!isOver);
  };
  const callers = Array.from({ length: CALLERS }, caller);
  await done().finally(() => {
    isOver = true;
  });
  await Promise.all(callers);
  return calls;
}

/** Workers of cold start again and again meanwhile; says how many did. */
async function serverAway(on: Installation): Promise<Calls & { starts: number }> {
  const { send, place } = await on.endpoint("cold");
  await on.call("cold", { n: 1 });
  let starts = 0;
  await on.cluster.server.down();
  try {
    const calls = await callsDuring(on, async () => {
      for (const end = performance.now() + AWAY_MS; performance.now() < end; await delay(2_000)) {
        await coldCall(send, place, starts);
        starts++;
      }
    });
    return { ...calls, starts };
  } finally {
    await on.cluster.server.up();
  }
}

async function drained(on: Installation): Promise<Calls> {
  const { apart: node } = await on.hostsApart("where");
  const to = ["drain", `n${node}`, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s"];
  const calls = await callsDuring(on, () => on.control(...to));
  await on.control("uncordon", `n${node}`);
  return calls;
}

/** Until the last of its jobs runs elsewhere, and how many never did. */
async function nodeLost(on: Installation): Promise<{ ms: number; lost: number }> {
  const inputs = Array.from({ length: JOBS }, (_, n) => ({ n, seconds: 30 }));
  const { apart: node, jobs } = await on.hostsApart("where", ...inputs);
  const all = () => Promise.all(jobs.map((status) => status()));
  const [{ workerId: lost }] = await all();
  const at = performance.now();
  await on.cluster.node(node, "crash");
  while ((await all()).some(({ status, workerId }) => status !== "IN_PROGRESS" || workerId === lost)) await delay(50);
  const ms = performance.now() - at;
  for (;;) {
    const ended = (await all()).map(({ status }) => status as string);
    if (ended.every((status) => !["IN_QUEUE", "IN_PROGRESS"].includes(status)))
      return { ms, lost: ended.filter((status) => status !== "COMPLETED").length };
    await delay(200);
  }
}
