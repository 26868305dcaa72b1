import { readFileSync, realpathSync } from "node:fs";

/** Blanks in a path are written as \040. */
const ESCAPED = /\\([0-7]{3})/g;

/** How the file system of a folder that exists is mounted, as ["rw", "noexec"] (proc_pid_mountinfo(5)); [] where that is not told. */
export function mountOptions(folder: string): string[] {
  let lines: string[];
  try {
    lines = readFileSync("/proc/self/mountinfo", "utf8").trimEnd().split("\n");
  } catch {
    return []; // No Linux.
  }
  const real = realpathSync(folder);
  let best = { point: "", options: "" };
  for (const line of lines) {
    const [, , , , escaped = "", options = ""] = line.split(" ");
    const point = escaped.replace(ESCAPED, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    const isAround = point === "/" || real === point || real.startsWith(`${point}/`);
    // Of several on one point the last one is seen.
    if (isAround && point.length >= best.point.length) best = { point, options };
  }
  return best.options.split(",").filter(Boolean);
}
