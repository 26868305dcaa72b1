/** Packages of npm that only tests use: kept in a cache folder, so that a clone does not have them. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { CACHE } from "../bench/processes.ts";
import { runProcess } from "../src/lib/run-process.ts";

/** A folder from which Node finds the packages. Rejects where they cannot be installed. */
export async function nodePackages(packages: readonly string[]): Promise<string> {
  const hash = createHash("sha256").update(packages.join(" ")).digest("hex").slice(0, 8);
  const dir = path.join(CACHE, `node-${hash}`);
  if (existsSync(dir)) return dir;
  const coming = `${dir}.${process.pid}`;
  mkdirSync(coming, { recursive: true });
  writeFileSync(path.join(coming, "package.json"), '{"private":true}');
  const args = ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages];
  const { code, stderr } = await runProcess("npm", args, { cwd: coming });
  if (code !== 0) {
    rmSync(coming, { recursive: true });
    throw new Error(`npm ${args.join(" ")}: ${stderr}`);
  }
  renameSync(coming, dir);
  return dir;
}
