/** What the kernel lets this process have (`ulimit`, systemd's Limit…=). */
import { readFileSync } from "node:fs";

/** How many files this process may have open at once; undefined where that cannot be looked up. Node raises it to the hard limit. */
export function openFilesMax(): number | undefined {
  return limit("Max open files");
}

/** How many bytes a file may have that this process writes to; undefined without a limit, and where that cannot be looked up. */
export function fileMaxBytes(): number | undefined {
  return limit("Max file size");
}

/** The soft one; undefined when it is "unlimited", too. */
function limit(name: string): number | undefined {
  try {
    const found = new RegExp(`^${name}\\s+(\\d+)`, "m").exec(readFileSync("/proc/self/limits", "latin1"));
    return found === null ? undefined : Number(found[1]);
  } catch {
    return undefined;
  }
}
