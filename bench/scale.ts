/**
 * One allocator with many hosts in Pods: a real API server, a scheduler and kwok, which plays the nodes and what runs on them; the platform's own
 * driver of hosts and controller of pools in this process, and agents that answer at once, without links (bench hosts measures those). 10,000
 * endpoints of 1,000 environments wait for their first workers; Pods are made, held and filled; then all is left alone for a while, and another
 * platform takes over. `--part N`: with so many hosts, ten endpoints each.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import type { Machine, Share } from "../src/domain/capacity.ts";
import { CPU_IMAGE } from "../src/domain/endpoint.ts";
import { HOST_FRAME } from "../src/domain/host-protocol.ts";
import { CapacityLedger } from "../src/drivers/capacity.ts";
import { HostsDriver } from "../src/drivers/hosts/hosts-driver.ts";
import type { HostChannel, KnownHost } from "../src/drivers/hosts/known-host.ts";
import type { LocalDriver, WorkerImage, WorkerSpec } from "../src/drivers/worker-driver.ts";
import { KubernetesApi } from "../src/kubernetes/api.ts";
import type { Frame } from "../src/lib/frames.ts";
import type { Log } from "../src/lib/log.ts";
import { Pods } from "../src/server/pods.ts";
import type { Endpoint, Store } from "../src/store/store.ts";
import { eventually } from "../test/eventually.ts";
import { ApiServer } from "../test/kubernetes/api-server.ts";
import { findKubernetes, findKwok } from "../test/kubernetes/find.ts";
import { RELEASE, release } from "../test/kubernetes/release.ts";
import { atMost, type Bench, median } from "./bench.ts";

const HOSTS = 1_000;
const ENDPOINTS_EACH = 10;
const WORKERS_EACH = 3;
const NODES_AT_ONCE = 8;
const REST_MS = 30_000;
const GROW_MAX_MS = 1_200_000;
const VCPUS = ENDPOINTS_EACH * WORKERS_EACH;
const SIZE = { vcpus: VCPUS, memoryGb: 2 * VCPUS };
const MACHINE: Machine = { ...SIZE, hardware: SIZE, gpus: [], emulatesGpu: false };
const STAGES = path.join(import.meta.dirname, "../test/kubernetes/kwok.yaml");
const PODS = "/api/v1/namespaces/scale/pods";
const nothing = () => {};

export const bench: Bench = async ({ part }) => {
  const count = part === undefined ? HOSTS : Number(part);
  const [kubernetes, kwok] = [findKubernetes(), findKwok()];
  if ("missing" in kubernetes) throw new Error(kubernetes.missing);
  if ("missing" in kwok) throw new Error(kwok.missing);
  const folder = mkdtempSync(path.join(tmpdir(), "svc-scale-"));
  // Nobody is there who would take the taint of a node that is not ready yet away again.
  const flags = ["--disable-admission-plugins=TaintNodesByCondition"];
  const server = await ApiServer.start(kubernetes.program, { flags });
  const asked = countedRequests();
  try {
    await nodes(server, kwok.program, count);
    const account = await release(server, "scale", folder);
    const file = path.join(folder, "pools.json");
    const pools = [{ name: "all", cpu: VCPUS, memory: SIZE.memoryGb, max: count, idle: 3600 }];
    writeFileSync(file, JSON.stringify({ ...RELEASE, pools }));
    const config = { pools: { file, host: server.host, port: server.port, account } };

    const first = new Allocator(config, count);
    const grew = await first.grow(server);
    const late = first.placed.slice(-Math.ceil(first.placed.length / 10)).sort((a, b) => a - b);
    const busy = first.busy.slice(-late.length).sort((a, b) => a - b);
    const whileGrowing = asked.count / (grew / 60_000);
    asked.count = 0;
    const turns = monitorEventLoopDelay({ resolution: 5 });
    turns.enable();
    const { user: before } = process.cpuUsage();
    await delay(REST_MS);
    const atRest = (asked.count * 60_000) / REST_MS;
    const restCpuMs = (process.cpuUsage().user - before) / 1_000 / (REST_MS / 1_000);
    turns.disable();
    const rssMb = process.memoryUsage().rss / 2 ** 20;
    await first.stop();

    const second = new Allocator(config, count);
    const takeOverMs = await second.takeOver(first);
    await second.stop();
    const p99 = late[Math.floor(late.length * 0.99)]!;
    return {
      conditions: {
        hosts: `${count} Pods on ${count} nodes of kwok, ${ENDPOINTS_EACH} endpoints with ${WORKERS_EACH} workers each on every one`,
        placement: `of the last ${late.length} of ${first.placed.length} workers, from the driver's start to the question to the agent`,
        memory: "of this process, which also holds the agents and the endpoints",
      },
      figures: {
        "until all workers run, s": grew / 1_000,
        "requests to the API server while Pods are made, a minute": whileGrowing,
        "requests to the API server at rest, a minute": atRest,
        "placement p50 ms": median(late),
        "placement p99 ms": p99,
        "placement p99, processor time ms": busy[Math.floor(busy.length * 0.99)]!,
        "longest turn at rest ms": turns.max / 1e6,
        "processor time at rest, ms a second": restCpuMs,
        "memory MB": rssMb,
        "take-over s": takeOverMs / 1_000,
      },
      bars: {
        placement: atMost(p99, 5, " ms"),
        "take-over": atMost(takeOverMs / 1_000, 5, " s"),
        memory: atMost(rssMb, 1_024, " MB"),
        "requests at rest": atMost(atRest, 10, " a minute"),
        "requests for each Pod that is made": atMost((whileGrowing * grew) / 60_000 / count, 4),
      },
    };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
};

/** All that the platform asks of the API server. */
function countedRequests(): { count: number } {
  const seen = { count: 0 };
  for (const name of ["ask", "open"] as const) {
    const real = KubernetesApi.prototype[name] as (...args: unknown[]) => unknown;
    Object.assign(KubernetesApi.prototype, {
      [name](this: KubernetesApi, ...args: unknown[]) {
        seen.count++;
        return real.apply(this, args);
      },
    });
  }
  return seen;
}

/** They are ready at once, and so is what is scheduled there. */
async function nodes(server: ApiServer, kwok: string, count: number): Promise<void> {
  const config = server.kubeconfig("admin");
  const scheduler = ["--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"];
  server.run("kube-scheduler", [
    `--kubeconfig=${config}`,
    ...scheduler,
    "--kube-api-qps=2000",
    "--kube-api-burst=2000",
  ]);
  const of = ["--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40"];
  server.run("kwok", ["--kubeconfig", config, ...of, "--cidr", "10.210.0.0/16", "--config", STAGES], kwok);
  const numbers = Array.from({ length: count }, (_, n) => n);
  const makeNext = async () => {
    for (let n = numbers.pop(); n !== undefined; n = numbers.pop()) {
      const metadata = { name: `k${n}`, annotations: { "kwok.x-k8s.io/node": "fake" } };
      await server.done("POST", "/api/v1/nodes", { metadata });
    }
  };
  await Promise.all(Array.from({ length: NODES_AT_ONCE }, makeNext));
}

interface Agent extends HostChannel {
  readonly workers: { readonly worker: string; readonly share: Share }[];
}

/** It does all that it is asked for at once. */
function playedAgent(): Agent {
  const answer = Buffer.from("{}");
  return {
    ...{ isOpen: true, isPaused: false, workers: [], close: nothing, destroy: nothing, onClose: nothing },
    get lastHeard() {
      return performance.now();
    },
    onFrame: (_: Frame) => {},
    send(type, _channel, head, body) {
      if (type !== HOST_FRAME.ASK) return;
      const { id, call } = head as { id: number; call: string };
      if (call === "start") {
        const { spec, share } = JSON.parse(Buffer.from(body!).toString()) as { spec: WorkerSpec; share: Share };
        this.workers.push({ worker: spec.workerId, share });
        askedAt.set(spec.workerId, performance.now());
      }
      const headBytes = Buffer.from(JSON.stringify({ id }));
      queueMicrotask(() => this.onFrame({ type: HOST_FRAME.ANSWER, flags: 0, channel: 0, headBytes, body: answer }));
    },
  };
}

const askedAt = new Map<string, number>();

/** What of a platform decides where workers run. */
class Allocator {
  readonly #endpoints: ReadonlyMap<string, Endpoint>;
  readonly #driver: HostsDriver;
  readonly #pods: Pods;
  /** Workers that it waits for, by endpoint. */
  readonly #missing = new Map<string, number>();
  readonly #rows = new Map<string, KnownHost>();
  readonly #agents = new Map<string, Agent>();
  /** Milliseconds of each, and those of them that the processor was busy with it: others may have it meanwhile. */
  readonly placed: number[] = [];
  readonly busy: number[] = [];

  constructor(config: Parameters<typeof Pods.open>[0]["config"], hosts: number) {
    const all = Array.from({ length: hosts * ENDPOINTS_EACH }, (_, n) => endpoint(n));
    this.#endpoints = new Map(all.map((one) => [one.id, one]));
    const ledger = new CapacityLedger(
      { cpuOvercommit: 1, memoryOvercommit: 1, emulateGpu: false, emulatedGpus: [] },
      [],
    );
    const hooks = { bootFailed: nothing, log: nothing, programPrinted: nothing, started: nothing };
    this.#driver = new HostsDriver({
      local: { onExit: nothing } as unknown as LocalDriver,
      capacity: ledger.capacity,
      ...{ labels: [], runsHere: false, drain: nothing, isConnected: () => true, connected: () => [] },
      needed: async (image) => ({ image, layers: [] }),
      hooks: { ...hooks, available: nothing, told: nothing },
      potential: () => this.#pods.machines,
    });
    const store = {
      hosts: {
        hold: async (id: string, holder: string) => {
          const row = { ...this.#rows.get(id)!, holder };
          this.#rows.set(id, row);
          this.#driver.know(row);
        },
        remove: async (id: string) => this.#driver.remove(id),
      },
    } as unknown as Store;
    this.#pods = Pods.open({
      ...{ config, store, endpoints: { find: (id) => this.#endpoints.get(id) }, fingerprint: () => "0".repeat(64) },
      waitingForRoom: () => {
        const waiting = [...this.#missing].filter(([, missing]) => missing > 0);
        return waiting.map(([endpointId, missing]) => ({ endpointId, missing, reason: "", need: undefined }));
      },
      ...{ makeVolume: async () => {}, clock: Date.now, log: { info: nothing } as unknown as Log },
      onError: (error) => console.error(error),
    })!;
    this.#pods.over(this.#driver);
  }

  /** Milliseconds until all workers run. */
  async grow(server: ApiServer): Promise<number> {
    const began = performance.now();
    await this.#driver.open();
    this.#pods.start();
    const started = [...this.#endpoints.values()].map(async (one) => {
      this.#missing.set(one.id, WORKERS_EACH);
      await this.#driver.prepare(imageOf(one), nothing);
      for (let n = 0; n < WORKERS_EACH; n++) await this.#start(one, `${one.id}-${n}`);
    });
    const all = Promise.all(started);
    let isOver = false;
    all.catch(nothing).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      if (server.ended !== undefined) throw new Error(server.ended);
      if (performance.now() - began > GROW_MAX_MS) throw new Error(`${this.#agents.size} hosts have joined in vain`);
      for (const { metadata, status } of (await server.done("GET", PODS)).items)
        if (status.phase === "Running" && !this.#agents.has(metadata.uid)) this.#join(metadata.uid);
      await delay(500);
    }
    await all;
    return performance.now() - began;
  }

  /** Milliseconds until all that is known to `before` is known here, and a further worker can start. */
  async takeOver(before: Allocator): Promise<number> {
    const began = performance.now();
    for (const row of before.#rows.values()) {
      this.#rows.set(row.id, row);
      this.#driver.know(row);
    }
    await this.#driver.open();
    this.#pods.start();
    for (const [uid, agent] of before.#agents) this.#join(uid, agent.workers);
    const images = [...this.#endpoints.values()].map((one) => this.#driver.prepare(imageOf(one), nothing));
    await Promise.all(images);
    await eventually(async () => {
      const { shares } = await this.#driver.capacity();
      if (shares.size !== before.placed.length) throw new Error(`${shares.size} workers are known`);
      const [view] = this.#pods.view;
      if (view?.pods !== before.#agents.size || view.joined !== view.pods) throw new Error(JSON.stringify(view));
    });
    return performance.now() - began;
  }

  async stop(): Promise<void> {
    await this.#pods.stop();
    await this.#driver.close({ stopAll: false });
  }

  #join(pod: string, workers: Agent["workers"] = []): void {
    const id = `h-${pod}`;
    const fixed = { name: id, labels: ["all"], driver: "process", version: "0", sharedVolumes: false, draining: false };
    const row = this.#rows.get(id) ?? { ...fixed, id, pod, holder: "" };
    this.#rows.set(id, row);
    const agent = playedAgent();
    agent.workers.push(...workers);
    this.#agents.set(pod, agent);
    this.#driver.attach(row, agent);
    const body = Buffer.from(
      JSON.stringify({ machine: MACHINE, workers, ended: [], missing: [], freeDiskBytes: 2 ** 40 }),
    );
    agent.onFrame({ type: HOST_FRAME.STATE, flags: 0, channel: 0, headBytes: Buffer.alloc(0), body });
  }

  async #start(one: Endpoint, workerId: string): Promise<void> {
    const began = performance.now();
    const before = process.threadCpuUsage();
    const fixed = { revision: one.revision, gpuIds: "", gpuPreference: [], gpuCount: 1, beyondCapacity: false };
    const started = this.#driver.start({
      ...fixed,
      workerId,
      image: imageOf(one),
      instanceIds: one.instanceIds,
    } as unknown as WorkerSpec);
    // It was asked for in this turn.
    const { user, system } = process.threadCpuUsage(before);
    this.busy.push((user + system) / 1_000);
    await started;
    this.placed.push(askedAt.get(workerId)! - began);
    this.#missing.set(one.id, this.#missing.get(one.id)! - 1);
  }
}

function endpoint(n: number): Endpoint {
  const environmentId = `env${Math.floor(n / ENDPOINTS_EACH)}`;
  const wants = { instanceIds: "cpu3c-1-2", gpuIds: "", gpuCount: 1, networkVolumeId: "", hosts: "" };
  return {
    id: `ep${n}`,
    environmentId,
    revision: "r",
    buildId: "b",
    imageName: CPU_IMAGE,
    ...wants,
  } as unknown as Endpoint;
}

function imageOf({ id: endpointId, environmentId, imageName }: Endpoint): WorkerImage {
  return { endpointId, environmentId, buildId: "b", imageName, volumes: [] } as unknown as WorkerImage;
}
