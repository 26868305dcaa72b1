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

/**
 * The own folder first, then those of builds that were killed; .svc/.build itself when no other build uses it. What cannot be removed now
 * fails no build: a later one tries again.
 */
export async function removeWorkDirectory(workDir: string): Promise<void> {
  const parent = path.dirname(workDir);
  for (const folder of [workDir, ...abandoned(parent).map((name) => path.join(parent, name))])
    await rm(folder, { recursive: true, force: true }).catch(() => {});
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
