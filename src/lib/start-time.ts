import { readFileSync } from "node:fs";

/**
 * What tells a process from a later one with the same pid; "" when that cannot be looked up now, undefined when it has ended, also where
 * nobody reaps it: the first process of a container often does not.
 */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
  } catch {
    return isThere(pid) ? "" : undefined; // No /proc here, or no file can be opened at the moment.
  }
}

/** Whether a process runs there, the one that `startTimeOf` told this of. What cannot be looked up is taken for the same. */
export function isRunning(pid: number, startTime = ""): boolean {
  const now = startTimeOf(pid);
  return now !== undefined && (now === "" || startTime === "" || now === startTime);
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
