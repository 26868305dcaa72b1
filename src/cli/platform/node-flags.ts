import { setFlagsFromString } from "node:v8";

/** What Node is called with for a platform. */
export const NODE_FLAGS = [
  // A large young generation: under load most garbage dies in it, and the platform needs a third less memory.
  "--min-semi-space-size=16",
  "--max-semi-space-size=32",
  // Instead of a handler as in src/cli/main.ts: with one more, calls took 4 % more of the processor (bench/queue.ts, Node 24.21).
  "--disable-sigusr1",
];

/**
 * Gives a platform that somebody else started in the foreground what one in the background has: the process becomes, with its
 * number, one that was called with the flags. One with a channel to its parent keeps it, and what it was called with.
 */
export function takeNodeFlags(env: Readonly<Record<string, string | undefined>>): void {
  if (process.execve === undefined || process.send !== undefined) return;
  if (NODE_FLAGS.every((flag) => process.execArgv.includes(flag))) return;
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
  const args = [process.execPath, ...process.execArgv, ...NODE_FLAGS, ...process.argv.slice(1)];
  process.execve(process.execPath, args, given as Record<string, string>);
}

/**
 * Bytes outside the heap count with the heap: V8 collects all of it whenever some 64 MB of them have come together, which bodies do that are
 * freed by themselves (src/lib/free-bytes.ts). Of Node 24 alone, whose V8 has the flag.
 */
export function countOutsideHeap(): void {
  if (process.versions.node.startsWith("24.")) setFlagsFromString("--external-memory-accounted-in-global-limit");
}
