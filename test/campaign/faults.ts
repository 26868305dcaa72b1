/**
 * What is done to which process, and how it is undone. The clock is left out: results are kept by the clock of the day, so that a
 * step of an hour ends the time of most, as it should. test/e2e/clock-step.test.ts has it.
 */
import { readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { runProcess } from "../../src/lib/run-process.ts";

export const COMPONENTS = ["platform", "launcher", "nursery", "zygote", "worker"] as const;
export const FAULTS = ["killed", "stopped", "link cut", "disk full", "out of descriptors"] as const;
export type Component = (typeof COMPONENTS)[number];
export type Fault = (typeof FAULTS)[number];

/** Processes of a platform at this moment. */
export interface Processes {
  readonly platform: number;
  readonly dataDir: string;
}

/** Whether the combination says something: a disk has no component, and a link has two ends. */
export function makesSense(fault: Fault, component: Component): boolean {
  if (fault === "disk full") return component === "platform";
  if (fault === "link cut") return component === "launcher" || component === "worker";
  return true;
}

/** Undefined when there is no such process now. A worker is a fork that has a link: beside it waits a spare without one. */
export async function pidOf(
  component: Component,
  { platform, dataDir }: Processes,
  random: () => number,
): Promise<number | undefined> {
  if (component === "platform") return platform;
  const launcher = (JSON.parse(readFileSync(path.join(dataDir, "launcher.json"), "utf8")) as { pid: number }).pid;
  if (component === "launcher") return launcher;
  const children = childrenOf(launcher);
  const zygotes = children.filter((pid) => childrenOf(pid).length > 0);
  if (component === "nursery") return children.filter((pid) => !zygotes.includes(pid)).sort((a, b) => a - b)[0];
  const among = component === "zygote" ? zygotes : await linkedTo(platform, zygotes.flatMap(childrenOf));
  return among[Math.floor(random() * among.length)];
}

async function linkedTo(platform: number, pids: readonly number[]): Promise<number[]> {
  const lines = await script("linked", platform, ...pids);
  return lines === "" ? [] : lines.split(" ").map(Number);
}

function childrenOf(pid: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && parentOf(name) === pid)
    .map(Number);
}

function parentOf(pid: string): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? 0 : Number(parent);
  } catch {
    return 0; // It ended in this moment.
  }
}

/** Resolves when it is over; a killed platform is the caller's to start again. False: it could not be done here. */
export async function inflict(
  fault: Fault,
  pid: number,
  { platform, dataDir }: Processes,
  forMs: number,
): Promise<boolean> {
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
