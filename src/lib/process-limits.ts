import { readFileSync } from "node:fs";

/** How many files this process may have open at once; undefined where that cannot be looked up. Node raises it to the hard limit. */
export function openFilesMax(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"));
    return found === null ? undefined : Number(found[1]);
  } catch {
    return undefined;
  }
}
