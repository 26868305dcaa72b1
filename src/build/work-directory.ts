/** .svc/.build/: each build has a folder of its own there, so that two may run at once; it goes with the build. */
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import path from "node:path";
import { isRunning } from "../lib/start-time.ts";

/** With `keep` it is .svc/.build/ itself, which then stays. */
export function workDirectory(projectDir: string, keep: boolean): string {
  const parent = path.join(projectDir, ".svc", ".build");
  return keep ? parent : path.join(parent, `${process.pid}-${randomBytes(3).toString("hex")}`);
}

/** The own folder first, then those of builds that were killed; .svc/.build itself when no other build uses it. */
export async function removeWorkDirectory(workDir: string): Promise<void> {
  await rm(workDir, { recursive: true, force: true });
  const parent = path.dirname(workDir);
  for (const name of abandoned(parent)) await rm(path.join(parent, name), { recursive: true, force: true });
  await rmdir(parent).catch(() => {});
}

function abandoned(parent: string): string[] {
  try {
    return readdirSync(parent).filter(
      (name) => /^\d+-[0-9a-f]{6}$/.test(name) && !isRunning(Number.parseInt(name, 10)),
    );
  } catch {
    return [];
  }
}
