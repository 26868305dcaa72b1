import { readdirSync, readlinkSync } from "node:fs";

/** What the descriptors of a process lead to: paths of files, and "socket:[…]", "pipe:[…]". */
export function openFiles(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return ""; // Closed meanwhile.
    }
  });
}
