import { setFlagsFromString } from "node:v8";

/** A large young generation: under load most garbage dies in it, and the platform needs a third less memory. */
export const HEAP_FLAGS = ["--min-semi-space-size=16", "--max-semi-space-size=32"];

/**
 * Gives a platform that somebody else started in the foreground the heap that one in the background has: the process becomes,
 * with its number, one that was called with the flags. One with a channel to its parent keeps it, and the heap it was given.
 */
export function takeHeap(env: Readonly<Record<string, string | undefined>>): void {
  if (process.execve === undefined || process.send !== undefined) return;
  if (HEAP_FLAGS.every((flag) => process.execArgv.includes(flag))) return;
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
  const args = [process.execPath, ...process.execArgv, ...HEAP_FLAGS, ...process.argv.slice(1)];
  process.execve(process.execPath, args, given as Record<string, string>);
}

/**
 * Bytes outside the heap count with the heap: V8 collects all of it whenever some 64 MB of them have come together, which bodies do that are
 * freed by themselves (src/lib/free-bytes.ts). Of Node 24 alone, whose V8 has the flag.
 */
export function countOutsideHeap(): void {
  if (process.versions.node.startsWith("24.")) setFlagsFromString("--external-memory-accounted-in-global-limit");
}
