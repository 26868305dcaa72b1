/** What is done to which process, and how it is undone. */
import { readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { LABEL } from "../../src/drivers/docker/labels.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { childrenOf } from "../children-of.ts";

/** Parts of a platform whose workers are processes, and of one that has them in containers. */
export const COMPONENTS = {
  processes: ["platform", "launcher", "nursery", "zygote", "worker"],
  containers: ["platform", "container", "zygote", "worker"],
} as const;
export const FAULTS = ["killed", "stopped", "link cut", "disk full", "out of descriptors", "clock set"] as const;
export type Driver = keyof typeof COMPONENTS;
export type Component = (typeof COMPONENTS)[Driver][number];
export type Fault = (typeof FAULTS)[number];

const HOUR_S = 3_600;

/** Processes of a platform at this moment. */
export interface Processes {
  readonly driver: Driver;
  readonly platform: number;
  readonly dataDir: string;
  /** Undefined where it cannot be set. */
  readonly setClock?: ((seconds: number) => void) | undefined;
}

/** Whether the combination says something: disk and clock are the platform's, and a link has two ends. Those of containers are TLS. */
export function makesSense(fault: Fault, component: Component, driver: Driver): boolean {
  if (fault === "disk full" || fault === "clock set") return component === "platform";
  if (fault === "link cut") return driver === "processes" && (component === "launcher" || component === "worker");
  return true;
}

/** Undefined when there is no such process now. A worker is a fork that has a link: beside it waits a spare without one. */
export async function pidOf(
  component: Component,
  { driver, platform, dataDir }: Processes,
  random: () => number,
): Promise<number | undefined> {
  if (component === "platform") return platform;
  const one = (among: readonly number[]) => among[Math.floor(random() * among.length)];
  if (driver === "containers") {
    const container = one(await containersOf(dataDir));
    if (component === "container" || container === undefined) return container;
    const zygotes = childrenOf(container).filter((pid) => childrenOf(pid).length > 0);
    return one(component === "zygote" ? zygotes : zygotes.flatMap(childrenOf));
  }
  const launcher = (JSON.parse(readFileSync(path.join(dataDir, "launcher.json"), "utf8")) as { pid: number }).pid;
  if (component === "launcher") return launcher;
  const children = childrenOf(launcher);
  const zygotes = children.filter((pid) => childrenOf(pid).length > 0);
  if (component === "nursery") return children.filter((pid) => !zygotes.includes(pid)).sort((a, b) => a - b)[0];
  return one(component === "zygote" ? zygotes : await linkedTo(platform, zygotes.flatMap(childrenOf)));
}

/** The first process of each, which is the launcher inside. */
async function containersOf(dataDir: string): Promise<number[]> {
  const { stdout } = await runProcess("docker", ["ps", "--quiet", "--filter", `label=${LABEL.dataDir}=${dataDir}`]);
  const ids = stdout.split("\n").filter(Boolean);
  const pids = ids.map(
    async (id) => (await runProcess("docker", ["inspect", "--format", "{{.State.Pid}}", id])).stdout,
  );
  return (await Promise.all(pids)).map(Number).filter((pid) => pid > 0);
}

async function linkedTo(platform: number, pids: readonly number[]): Promise<number[]> {
  const lines = await script("linked", platform, ...pids);
  return lines === "" ? [] : lines.split(" ").map(Number);
}

/** Resolves when it is over; a killed platform is the caller's to start again. False: it could not be done here. */
export async function inflict(
  fault: Fault,
  pid: number,
  { platform, dataDir, setClock }: Processes,
  forMs: number,
): Promise<boolean> {
  if (fault === "clock set") return stepClock(setClock, forMs);
  if (fault === "killed") return signal(pid, "SIGKILL");
  if (fault === "stopped") {
    signal(pid, "SIGSTOP");
    await delay(forMs);
    return signal(pid, "SIGCONT");
  }
  if (fault === "link cut") return Number(await script("cut", platform, pid)) > 0;
  if (fault === "out of descriptors") {
    const before = await script("files", pid, "2");
    if (before === "") return false;
    await delay(forMs);
    await script("files", pid, `=${before}`);
    return true;
  }
  return fillDisk(dataDir, forMs);
}

/** Forwards, backwards, and right again. */
async function stepClock(setClock: Processes["setClock"], forMs: number): Promise<boolean> {
  for (const seconds of [HOUR_S, -HOUR_S]) {
    setClock?.(seconds);
    await delay(forMs / 2);
  }
  setClock?.(0);
  return setClock !== undefined;
}

async function fillDisk(dataDir: string, forMs: number): Promise<boolean> {
  const { blocks, bsize } = statfsSync(dataDir);
  // Only a small disk of the test's own.
  if (blocks * bsize > 512 * 1024 ** 2) return false;
  const file = path.join(dataDir, "fills-the-disk");
  try {
    for (let piece = 0; ; piece++) writeFileSync(`${file}-${piece}`, Buffer.alloc(1024 ** 2));
  } catch {
    await delay(forMs);
  }
  for (const name of readdirSync(dataDir)) if (name.startsWith("fills-the-disk")) rmSync(path.join(dataDir, name));
  return true;
}

async function script(what: string, pid: number, ...args: (string | number)[]): Promise<string> {
  const file = path.join(import.meta.dirname, "faults.py");
  const { code, stdout } = await runProcess("python3", [file, what, String(pid), ...args.map(String)]);
  return code === 0 ? stdout.trim() : "";
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false; // Gone already.
  }
}
