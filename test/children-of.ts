import { readdirSync, readFileSync } from "node:fs";

/** The processes that this one started, or was given, and that run. */
export function childrenOf(pid: number): number[] {
  const all = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
  return all.map(Number).filter((entry) => {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "latin1");
      const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return state !== "Z" && Number(parent) === pid;
    } catch {
      return false; // gone meanwhile
    }
  });
}
