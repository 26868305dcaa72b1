/** Packages of the Python index that only tests use: installed once, kept in a cache folder. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { CACHE } from "../bench/processes.ts";
import { runProcess } from "../src/lib/run-process.ts";

/** A folder to import the packages from; why there is none, where the index cannot be reached. */
export async function pythonPackages(packages: readonly string[]): Promise<{ dir: string } | { skip: string }> {
  const { stdout: version } = await runProcess("python3", ["--version"]);
  const hash = createHash("sha256")
    .update([version, ...packages].join(" "))
    .digest("hex")
    .slice(0, 8);
  const dir = path.join(CACHE, `python-${hash}`);
  if (existsSync(dir)) return { dir };
  mkdirSync(CACHE, { recursive: true });
  const coming = `${dir}.${process.pid}`;
  const args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", coming, ...packages];
  const { code, stderr } = await runProcess("python3", args, { env: process.env });
  if (code !== 0) {
    rmSync(coming, { recursive: true, force: true });
    const isAway = /NewConnectionError|Temporary failure|No matching distribution|ConnectTimeout|ProxyError/.test(
      stderr,
    );
    if (isAway) return { skip: `the package index cannot be reached for ${packages.join(", ")}` };
    throw new Error(`pip install ${packages.join(" ")}: ${stderr}`);
  }
  // Another test file may have been quicker.
  if (existsSync(dir)) rmSync(coming, { recursive: true, force: true });
  else renameSync(coming, dir);
  return { dir };
}
