/** Processor time, from the kernel's account: what a rate cost each of the processes that made it. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/** The kernel counts in ticks of 10 ms. */
const TICK_MS = 10;

/** Names of what takes part in a load, with the processes that are counted for it; their children are counted too where `tree` says so, those that have ended as well. */
export type Parts = Readonly<Record<string, { readonly pids: readonly number[]; readonly tree?: boolean }>>;

/** Starts counting. The function it gives says milliseconds since then by part. */
export function processorTime(parts: Parts): () => Record<string, number> {
  const used = () =>
    Object.entries(parts).map(([name, { pids, tree = false }]) => {
      const all = tree ? pids.flatMap(descendants) : pids;
      return [name, all.reduce((sum, pid) => sum + usedMs(pid, tree), 0)] as const;
    });
  const before = Object.fromEntries(used());
  return () => Object.fromEntries(used().map(([name, ms]) => [name, ms - before[name]!]));
}

/** Microseconds of each part for each of `count` pieces of work. */
export function eachUs(ms: Readonly<Record<string, number>>, count: number): Record<string, number> {
  return Object.fromEntries(Object.entries(ms).map(([name, value]) => [name, (value * 1000) / count]));
}

export function total(values: Readonly<Record<string, number>>): number {
  return Object.values(values).reduce((sum, value) => sum + value, 0);
}

/** The process itself and all below it. */
export function descendants(pid: number): number[] {
  const found = [pid];
  for (const parent of found) found.push(...childrenOf(parent));
  return found;
}

/** From now on `peakMb` tells of what comes. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** Most memory since the process began or `forgetPeak`, in MB. */
export function peakMb(pid: number): number {
  return memoryMb(pid, "VmHWM");
}

export function residentMb(pid: number): number {
  return memoryMb(pid, "VmRSS");
}

function memoryMb(pid: number, field: string): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
}

/** Milliseconds of all threads since the process began, those that ended too, and of `children` that ended; 0 for a process that is gone. */
export function usedMs(pid: number, children = false): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in brackets, may hold anything: user and system time are the 12th and 13th field behind it, its children's follow.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields.slice(11, children ? 15 : 13).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
  } catch {
    return 0;
  }
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}
