/**
 * Zero → first result, over HTTP with authentication and a durable job: from no worker to the answer. Each round lets all
 * workers go first. "zygote" has the endpoint's code imported and forks; "nothing" is the first call after a deploy;
 * "spawn" is boot="OFF", a fresh interpreter each time.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { atMost, type Bench, Seen } from "./bench.ts";
import { type BenchPlatform, startPlatform } from "./processes.ts";
import { descendants, type Parts, processorTime } from "./processor-time.ts";

const BURST = 30;
/** Cold calls of each endpoint in one round. */
const CALLS = 3;
const HELLO = 'def {name}(n=1):\n    return {"n": n}\n';
const SOURCES = {
  hello: { options: "", head: "" },
  stdlib: {
    options: "",
    head: "import asyncio, decimal, email, http.client, json, logging, sqlite3, typing, unittest, xml.dom",
  },
  numpy: { options: ', dependencies=["numpy"]', head: "import numpy" },
  spawn: { options: ', boot="OFF"', head: "" },
};

function project(marker: string): Record<string, string> {
  const files = Object.entries(SOURCES).map(([name, { options, head }]) => [
    `${name}_worker.py`,
    `${head}\nfrom svc import Endpoint\n\n@Endpoint(name="${name}", workers=(0, 5)${options})\n${HELLO.replace("{name}", name)}`,
  ]);
  return { ...Object.fromEntries(files), "marker.py": `MARKER = "${marker}"\n` };
}

export const bench: Bench = async ({ rounds }) => {
  const platform = await startPlatform();
  const seen = new Seen();
  const { note } = seen;
  /** Of what the launcher started all that is there or has ended: zygotes, workers. */
  const parts: Parts = {
    platform: { pids: [platform.pid] },
    "launcher, zygotes and workers": { pids: descendants(platform.pid).filter(isLauncher), tree: true },
  };
  const counted = async (name: string, call: () => Promise<number>) => {
    const spent = processorTime(parts);
    note(`${name} ms`, await call());
    for (const [part, ms] of Object.entries(spent()))
      getOrInsert(processor, `${name}, processor time ms, ${part}`, () => []).push(ms);
  };
  const processor = new Map<string, number[]>();
  try {
    let urls: Record<string, string> = {};
    for (let round = 0; round < rounds; round++) {
      urls = await platform.deploy(project(`${round}`));
      // The deploy has shown that each revision starts; what it left goes, zygotes too, by one more revision.
      await scale(platform, 0);
      await retireZygotes(platform);
      // From before the scale-up: the new revision's first worker starts with it.
      const began = performance.now();
      await allow(platform, urls.hello!, 5);
      await timed(platform, urls.hello!);
      note("nothing there: hello ms", performance.now() - began);
      await scale(platform, 5);
      for (const name of Object.keys(SOURCES)) {
        for (let call = 0; call < CALLS; call++) {
          await timed(platform, urls[name]!);
          note(`warm call: ${name} ms`, await timed(platform, urls[name]!));
          await scale(platform, 0);
          await scale(platform, 5);
          const way = `${name === "spawn" ? "plain spawn" : "zygote there"}: ${name}`;
          await counted(way, () => timed(platform, urls[name]!));
        }
      }
      await scale(platform, 0);
      await scale(platform, 5);
      const started = performance.now();
      await Promise.all(Array.from({ length: BURST }, () => timed(platform, urls.hello!)));
      note(`${BURST} cold calls at once, last result ms`, performance.now() - started);
      const bare = performance.now();
      await runProcess("/usr/bin/python3", ["-I", "-S", "-c", "print(1)"]);
      note("bare python3 -c ms", performance.now() - bare);
    }
    for (const [name, kb] of await memory(platform)) note(`unique memory of an idle worker, ${name} MB`, kb / 1024);
  } finally {
    await platform.stop();
  }
  const figures = seen.medians();
  for (const name of ["hello", "numpy"]) {
    figures[`zygote there: ${name}, fastest ms`] = Math.min(...seen.of(`zygote there: ${name} ms`));
  }
  // The kernel counts in steps of 10 ms: only the mean of many says something.
  for (const [name, all] of processor) figures[name] = all.reduce((sum, ms) => sum + ms, 0) / all.length;
  return {
    conditions: {
      call: "POST /runsync on a kept connection, auth on, durable",
      rounds: String(rounds),
      python: (await runProcess("python3", ["-V"])).stdout.trim(),
    },
    figures,
    bars: {
      "zygote there: hello": atMost(figures["zygote there: hello ms"]!, 5, " ms"),
      "zygote there: numpy": atMost(figures["zygote there: numpy ms"]!, 8, " ms"),
      "nothing there: hello": atMost(figures["nothing there: hello ms"]!, 80, " ms"),
      "30 at once": atMost(figures[`${BURST} cold calls at once, last result ms`]!, 80, " ms"),
      "unique memory, hello": atMost(figures["unique memory of an idle worker, hello MB"]!, 2, " MB"),
    },
  };
};

const agent = new Agent({ keepAlive: true });

async function timed(platform: BenchPlatform, url: string): Promise<number> {
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const started = performance.now();
  const call = request(`${url}/runsync`, { method: "POST", headers, agent }).end('{"input":{}}');
  const [response] = (await once(call, "response")) as [IncomingMessage];
  const job = (await json(response)) as { status: string };
  if (job.status !== "COMPLETED") throw new Error(`a job ended ${JSON.stringify(job)}`);
  return performance.now() - started;
}

/** Sets workersMax of the endpoint with this URL, and does not wait. */
async function allow(platform: BenchPlatform, url: string, workersMax: number): Promise<void> {
  const id = url.split("/").at(-1);
  await platform.query(`mutation { saveEndpoint(input: { id: "${id}", workersMax: ${workersMax} }) { id } }`);
}

/** Sets workersMax of every endpoint; 0 also waits until no worker is left. */
async function scale(platform: BenchPlatform, workersMax: number): Promise<void> {
  const endpoints = await all(platform);
  for (const { id } of endpoints) {
    await platform.query(`mutation { saveEndpoint(input: { id: "${id}", workersMax: ${workersMax} }) { id } }`);
  }
  while (workersMax === 0 && (await all(platform)).some((endpoint) => endpoint.pods.length > 0)) await delay(10);
  await delay(50);
}

/** Two changes of the revision while nothing may start: the present zygotes are retired and none takes their place. */
async function retireZygotes(platform: BenchPlatform): Promise<void> {
  for (const boot of ["OFF", "SVCBOOT"]) {
    for (const { id, name } of await all(platform)) {
      if (name !== "spawn")
        await platform.query(`mutation { saveEndpoint(input: { id: "${id}", svcBootType: ${boot} }) { id } }`);
    }
    await delay(100);
  }
}

async function all(platform: BenchPlatform): Promise<{ id: string; name: string; pods: { id: string }[] }[]> {
  const { myself } = await platform.query<{ myself: { endpoints: [] } }>(
    "{ myself { endpoints { id name pods { id } } } }",
  );
  return myself.endpoints;
}

function isLauncher(pid: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("_runtime/launcher.py");
}

/** Private memory (kB) of one worker of each endpoint, from the kernel's own account. */
async function memory(platform: BenchPlatform): Promise<[string, number][]> {
  const found: [string, number][] = [];
  for (const { name, pods } of await all(platform)) {
    const pid = pods[0] && platform.workerPid(pods[0].id);
    if (pid === undefined) continue;
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    const kb = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(rollup)?.[1]);
    found.push([name, kb("Private_Clean") + kb("Private_Dirty")]);
  }
  return found;
}
