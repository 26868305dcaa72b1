/** What is measured of much that nobody uses, part by part. `few` has one endpoint that is called, `many` thousands of others beside it. */
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { rowsOf, sampleOf } from "../test/campaign/soak.ts";
import { median } from "./bench.ts";
import { countedLoad } from "./load.ts";
import { project } from "./many-endpoints.ts";
import type { BenchPlatform } from "./processes.ts";
import { descendants, processorTime, residentMb, total, usedMs } from "./processor-time.ts";

const OPENING = 100;
const SECONDS = 2;
const SETTLE_MS = 3_000;
const REST_MS = 5_000;
const MINUTE_MS = 60_000;
const LOAD_CONNECTIONS = 16;

export interface Subject {
  readonly platform: BenchPlatform;
  /** URL of the endpoint that is called. */
  readonly called: string;
}

export interface Rig {
  readonly few: Subject;
  readonly many: Subject & { readonly name: string; readonly urls: readonly string[] };
  readonly rounds: number;
  readonly counts: { readonly connections: number; readonly minuteEndpoints: number; readonly deploys: number };
  note(figure: string, value: number): void;
}

type Part = (rig: Rig) => Promise<void>;

export const start: Part = (rig) =>
  alternately(rig, async ({ platform, called }, stage) => {
    const began = performance.now();
    rig.note(`${stage}: listens after ms`, await platform.restart(() => {}));
    await call(platform, called);
    rig.note(`${stage}: first answer after ms, with the end of the one before`, performance.now() - began);
    rig.note(`${stage}: processor time of the start ms`, usedMs(platform.pid));
    rig.note(`${stage}: resident after the start MB`, residentMb(platform.pid));
  });

export const rest: Part = (rig) =>
  alternately(rig, async ({ platform }, stage) => {
    await delay(SETTLE_MS);
    rig.note(`${stage}: at rest % of a core`, await useOf([platform.pid], REST_MS));
    rig.note(`${stage}: resident at rest MB`, residentMb(platform.pid));
  });

export const rate: Part = (rig) => alternately(rig, (subject, stage) => noteRate(rig, subject, stage));

async function noteRate(rig: Rig, { platform, called }: Subject, stage: string): Promise<void> {
  await call(platform, called);
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const target = { url: `${called}/runsync`, method: "POST", headers, body: '{"input":{}}' } as const;
  const parts = { platform: { pids: [platform.pid] }, worker: { pids: await platform.workerPids("called") } };
  const { requestsPerSecond, us } = await countedLoad(target, parts, LOAD_CONNECTIONS, SECONDS);
  rig.note(`${stage}: runsync requests/s`, requestsPerSecond);
  for (const [part, value] of Object.entries(us)) rig.note(`${stage}: runsync µs/request, ${part}`, value);
}

/** Each of some endpoints once a minute: their workers come and go. A round is a minute; before the first, one is left out. */
export const minute: Part = async (rig) => {
  const { platform, urls } = rig.many;
  const called = urls.slice(0, rig.counts.minuteEndpoints);
  const stage = `${called.length} endpoints a minute`;
  for (let round = 0; round <= rig.rounds; round++) {
    const took: number[] = [];
    const spent = processorTime({ platform: { pids: [platform.pid] } });
    const calls = called.map(async (url, n) => {
      await delay((n * MINUTE_MS) / called.length);
      const began = performance.now();
      await call(platform, url);
      took.push(performance.now() - began);
    });
    await Promise.all([...calls, delay(MINUTE_MS)]);
    if (round === 0) continue;
    rig.note(`${stage}: answer, median ms`, median(took));
    rig.note(`${stage}: answer, 99th percentile ms`, took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)]!);
    rig.note(`${stage}: platform's processor time ms/call`, total(spent()) / took.length);
    rig.note(`${stage}: platform resident MB`, residentMb(platform.pid));
    rig.note(`${stage}: processes of workers and their code`, descendants(launcherOf(platform)).length);
  }
};

/**
 * New code, and a call that it answers, over and over: the second half must leave nothing behind that the first did not. What is resident
 * rises and falls by a fifth as garbage is collected: the highest of the second quarter stands against the highest of the last one.
 */
export const deploys: Part = async (rig) => {
  const { platform } = rig.few;
  const { controlPlane, send, remove } = project(platform);
  const place = { app: "deploys", environment: "production" };
  const halves: { descriptors: number; rows: number; folders: number }[] = [];
  const rssMb: number[] = [];
  try {
    const spent = processorTime({ platform: { pids: [platform.pid] } });
    for (let n = 0; n < rig.counts.deploys; n++) {
      const { manifest } = await send(
        `from svc import Endpoint\n\n@Endpoint(name="often", workers=(0, 1), idle_timeout=5)\ndef often(n: int = 1):\n    return "round ${n}."\n`,
      );
      const [endpoint] = (await controlPlane.deployBuild({ ...place, manifest })).endpoints;
      while ((await call(platform, endpoint!.url)) !== `round ${n}.`);
      rssMb.push(residentMb(platform.pid));
      if (n === rig.counts.deploys >> 1 || n === rig.counts.deploys - 1) halves.push(leftBy(platform));
    }
    rig.note(`deploys: platform's processor time ms each`, total(spent()) / rig.counts.deploys);
    const quarter = Math.ceil(rssMb.length / 4);
    const [early, late] = [rssMb.slice(quarter, 2 * quarter), rssMb.slice(-quarter)].map((all) => Math.max(...all));
    rig.note("deploys: highest rssMb, last quarter", late!);
    rig.note("deploys: highest rssMb, last quarter less the second", late! - early!);
    const [first, last] = halves as [(typeof halves)[0], (typeof halves)[0]];
    for (const [name, value] of Object.entries(last)) {
      rig.note(`deploys: ${name} after all`, value);
      rig.note(`deploys: ${name}, second half`, value - first[name as keyof typeof first]);
    }
  } finally {
    remove();
  }
};

export const connections: Part = async (rig) => {
  const { few, counts, rounds } = rig;
  await noteRate(rig, few, "no open connections");
  const sockets = await open(few.platform, counts.connections);
  const stage = `${counts.connections} open connections`;
  try {
    rig.note(`${stage}: taken`, sockets.length);
    for (let round = 0; round < rounds; round++) await noteRate(rig, few, stage);
    rig.note(`${stage}: resident MB`, residentMb(few.platform.pid));
    rig.note(`${stage}: at rest % of a core`, await useOf([few.platform.pid], REST_MS));
  } finally {
    for (const socket of sockets) socket.destroy();
  }
};

async function alternately({ few, many, rounds }: Rig, measure: (subject: Subject, stage: string) => Promise<void>) {
  for (let round = 0; round < rounds; round++) {
    await measure(few, "1 endpoint");
    await measure(many, many.name);
  }
}

async function useOf(pids: readonly number[], ms: number): Promise<number> {
  const spent = processorTime({ these: { pids } });
  await delay(ms);
  return (total(spent()) / ms) * 100;
}

/** Records of deploys are kept for a year, jobs as long as they say, layers for a day: they are not counted. */
function leftBy({ pid, dataDir }: BenchPlatform) {
  const { builds = 0, endpoints = 0, workers = 0 } = rowsOf(dataDir) ?? {};
  const { descriptors } = sampleOf(pid);
  return { descriptors, rows: builds + endpoints + workers, folders: readdirSync(`${dataDir}/tmp`).length };
}

function launcherOf({ dataDir }: BenchPlatform): number {
  return (JSON.parse(readFileSync(`${dataDir}/launcher.json`, "utf8")) as { pid: number }).pid;
}

/** Its output. A job that waits for longer than /runsync does, on a busy machine, is asked for again. */
async function call(platform: BenchPlatform, url: string): Promise<unknown> {
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const read = async (answer: Response) => (await answer.json()) as { id: string; status: string; output: unknown };
  let job = await read(await fetch(`${url}/runsync`, { method: "POST", headers, body: '{"input":{}}' }));
  while (job.status.startsWith("IN_")) job = await read(await fetch(`${url}/status-sync/${job.id}`, { headers }));
  if (job.status !== "COMPLETED") throw new Error(`a job ended ${JSON.stringify(job)}`);
  return job.output;
}

/** As many as the platform takes, each with one answered request behind it. */
async function open(platform: BenchPlatform, count: number): Promise<Socket[]> {
  const { port, host } = new URL(platform.url);
  const sockets: Socket[] = [];
  const one = async () => {
    const socket = connect(Number(port), "127.0.0.1");
    socket.on("error", () => {});
    socket.write(`GET /ping HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
    const answered = await Promise.race([once(socket, "data"), once(socket, "close").then(() => undefined)]);
    if (answered !== undefined) sockets.push(socket);
  };
  for (let n = 0; n < count; n += OPENING) await Promise.all(Array.from({ length: Math.min(OPENING, count - n) }, one));
  return sockets.filter((socket) => !socket.destroyed);
}
