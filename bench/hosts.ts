/**
 * Workers of a host beside workers of the platform's own machine, in turns in one run: cold start with the zygote there, and a warm
 * runsync, with the processor time of each process; both over loopback, so what is compared is TLS and the agent, not a network. Then
 * a platform with 100 links that are real (host-links.ts), and the driver alone with 100 agents that are played: how long one of
 * 3,000 starts takes to be placed and asked for, and the memory that they take.
 */
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Machine } from "../src/domain/capacity.ts";
import { CPU_IMAGE } from "../src/domain/endpoint.ts";
import { HOST_FRAME } from "../src/domain/host-protocol.ts";
import { imageKey } from "../src/domain/placement.ts";
import { CapacityLedger } from "../src/drivers/capacity.ts";
import { HostsDriver } from "../src/drivers/hosts/hosts-driver.ts";
import type { HostChannel } from "../src/drivers/hosts/known-host.ts";
import type { LocalDriver, WorkerImage, WorkerSpec } from "../src/drivers/worker-driver.ts";
import type { Frame } from "../src/lib/frames.ts";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { AgentProcess } from "../test/host/agent-process.ts";
import { atMost, type Bench, median } from "./bench.ts";
import { linksCost } from "./host-links.ts";
import { type BenchPlatform, startPlatform } from "./processes.ts";
import { eachUs, type Parts, processorTime } from "./processor-time.ts";

const COLD_CALLS = 5;
const WARM_CALLS = 200;
const HOSTS = 100;
const WORKERS_EACH = 30;
const HELLO = `from svc import Endpoint

@Endpoint(name="hello", workers=(0, 1))
def hello(n=1):
    return {"n": n}
`;

export const bench: Bench = async ({ rounds }) => {
  const here = await startPlatform({ SVC_WORKER_LISTEN: "tls://127.0.0.1:0" });
  const there = await startPlatform({ SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_LOCAL_WORKERS: "0" });
  const agent = await join(there);
  const seen = new Map<string, number[]>();
  const used = new Map<string, number[]>();
  const blocks: { readonly name: string; readonly p50: number }[] = [];
  let links: Record<string, number> = {};
  try {
    const files = { "hello_worker.py": HELLO };
    const sides = [
      { name: "own machine", platform: here, url: (await here.deploy(files)).hello! },
      { name: "host", platform: there, url: (await there.deploy(files)).hello! },
    ];
    for (let round = 0; round < rounds; round++) {
      for (const { name, platform, url } of sides) {
        const cold = getOrInsert(seen, `cold start, zygote there, ${name} ms`, () => []);
        for (let n = 0; n < COLD_CALLS; n++) {
          await scaleTo(platform, url, 0);
          await scaleTo(platform, url, 1);
          cold.push(await timed(platform, url));
        }
        const warm = getOrInsert(seen, `runsync, ${name} ms`, () => []);
        const parts: Parts = {
          platform: { pids: [platform.pid] },
          worker: { pids: await platform.workerPids("hello") },
          ...(platform === there && { agent: { pids: [agent.child.pid!] } }),
        };
        const spent = processorTime(parts);
        const block: number[] = [];
        for (let n = 0; n < WARM_CALLS; n++) block.push(await timed(platform, url));
        warm.push(...block);
        blocks.push({ name, p50: median(block) });
        for (const [part, us] of Object.entries(eachUs(spent(), WARM_CALLS))) {
          getOrInsert(used, `processor time of a runsync, ${name}: ${part} µs`, () => []).push(us);
        }
      }
    }
    links = await linksCost(here);
  } finally {
    await agent.signal("SIGINT");
    await Promise.all([here.stop(), there.stop()]);
  }
  const figures: Record<string, number> = Object.fromEntries([...seen].map(([name, values]) => [name, median(values)]));
  figures["runsync, host / own machine"] = figures["runsync, host ms"]! / figures["runsync, own machine ms"]!;
  const p50s = (of: string) => blocks.filter(({ name }) => name === of).map(({ p50 }) => p50);
  const [own, others] = [p50s("own machine"), p50s("host")];
  figures["runsync, host / own machine, median of the pairs of rounds"] = median(others.map((p50, n) => p50 / own[n]!));
  for (const [name, values] of used) figures[name] = values.reduce((sum, value) => sum + value, 0) / values.length;
  Object.assign(figures, links, await placement());
  return {
    conditions: {
      call: "POST /runsync, auth on, durable",
      rounds: String(rounds),
      hosts: `${HOSTS} × ${WORKERS_EACH}`,
    },
    figures,
    bars: {
      "cold start on a host": atMost(figures["cold start, zygote there, host ms"]!, 10, " ms"),
      "runsync on a host": atMost(figures["runsync, host / own machine"]!, 1.3, " × own machine"),
      placement: atMost(figures["placement p99 ms"]!, 5, " ms"),
    },
  };
};

async function join(platform: BenchPlatform): Promise<AgentProcess> {
  const { createHostToken: made } = await platform.query<{
    createHostToken: { secret: string; fingerprint: string };
  }>("mutation { createHostToken(input: {}) { secret fingerprint } }");
  const dataDir = path.join(path.dirname(platform.dataDir), "host");
  const args = [`${platform.url}#${made.fingerprint}`, "--name", "bench", "--data-dir", dataDir, "--json"];
  const agent = new AgentProcess(args, { SVC_HOST_TOKEN: made.secret });
  while (!agent.stdout.includes('"event":"joined"')) {
    if (!agent.isAlive) throw new Error(agent.stderr);
    await delay(20);
  }
  return agent;
}

async function scaleTo(platform: BenchPlatform, url: string, workersMax: number): Promise<void> {
  const id = url.split("/").at(-1);
  await platform.query(`mutation { saveEndpoint(input: { id: "${id}", workersMax: ${workersMax} }) { id } }`);
  const pods = async () => {
    const { myself } = await platform.query<{ myself: { endpoints: { pods: [] }[] } }>(
      "{ myself { endpoints { pods { id } } } }",
    );
    return myself.endpoints[0]!.pods.length;
  };
  while (workersMax === 0 && (await pods()) > 0) await delay(10);
  await delay(50);
}

async function timed(platform: BenchPlatform, url: string): Promise<number> {
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const began = performance.now();
  const answer = await fetch(`${url}/runsync`, { method: "POST", headers, body: '{"input":{}}' });
  const { status } = (await answer.json()) as { status: string };
  if (status !== "COMPLETED") throw new Error(`a job ended ${status}`);
  return performance.now() - began;
}

/** An agent that does all that it is asked for at once. */
function playedAgent(): HostChannel & { asked: number } {
  const answer = Buffer.from("{}");
  return {
    ...{ isOpen: true, isPaused: false, lastHeard: 0, asked: 0, close: () => {}, destroy: () => {}, onClose: () => {} },
    onFrame: (_: Frame) => {},
    send(type, _channel, head) {
      if (type !== HOST_FRAME.ASK) return;
      this.asked = performance.now();
      const headBytes = Buffer.from(JSON.stringify({ id: (head as { id: number }).id }));
      queueMicrotask(() => this.onFrame({ type: HOST_FRAME.ANSWER, flags: 0, channel: 0, headBytes, body: answer }));
    },
  };
}

async function placement(): Promise<Record<string, number>> {
  const size = { vcpus: 32, memoryGb: 128 };
  const machine: Machine = { ...size, hardware: size, gpus: [], emulatesGpu: false };
  const nothing = () => {};
  const before = process.memoryUsage().rss;
  const driver = new HostsDriver({
    local: { onExit: nothing } as unknown as LocalDriver,
    capacity: new CapacityLedger({ cpuOvercommit: 1, memoryOvercommit: 1, emulateGpu: false, emulatedGpus: [] }, [])
      .capacity,
    ...{
      labels: [],
      runsHere: false,
      needed: async (image: WorkerImage) => ({ image, layers: [] }),
      isConnected: () => true,
      connected: () => [],
    },
    drain: nothing,
    hooks: {
      ...{ bootFailed: nothing, log: nothing, programPrinted: nothing, started: nothing },
      ...{ available: nothing, told: nothing },
    },
  });
  const agents = Array.from({ length: HOSTS }, playedAgent);
  const state = { machine, workers: [], ended: [], missing: [], freeDiskBytes: 0 };
  for (const [n, agent] of agents.entries()) {
    const row = { id: `h-${n}`, name: `host-${n}`, labels: [], driver: "process", version: "0" };
    driver.attach({ ...row, sharedVolumes: false, draining: false, pod: "", holder: "" }, agent);
    const body = Buffer.from(JSON.stringify(state));
    agent.onFrame({ type: HOST_FRAME.STATE, flags: 0, channel: 0, headBytes: Buffer.alloc(0), body });
  }
  const images = Array.from({ length: 10 }, (_, n) => ({
    endpointId: `ep${n}`,
    buildId: "b",
    imageName: CPU_IMAGE,
    volumes: [],
  }));
  for (const image of images) await driver.prepare(image as unknown as WorkerImage, nothing);
  while (
    !driver.hosts.every((host) => images.every((image) => host.isPrepared(imageKey(image as unknown as WorkerImage))))
  ) {
    await delay(1);
  }
  const times: number[] = [];
  for (let n = 0; n < HOSTS * WORKERS_EACH; n++) {
    const began = performance.now();
    const image = images[n % images.length];
    const fixed = { revision: "r", instanceIds: "cpu3c-1-2", gpuIds: "", gpuPreference: [], gpuCount: 1 };
    const started = driver.start({
      ...fixed,
      workerId: `w${n}`,
      image,
      beyondCapacity: false,
    } as unknown as WorkerSpec);
    times.push(Math.max(...agents.map((agent) => agent.asked)) - began);
    await started;
  }
  times.sort((a, b) => a - b);
  return {
    "placement p50 ms": median(times),
    "placement p99 ms": times[Math.floor(times.length * 0.99)]!,
    "memory of the driver with all of them MB": (process.memoryUsage().rss - before) / 2 ** 20,
  };
}
