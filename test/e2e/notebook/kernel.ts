/** The kernel of a real notebook. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { pythonEnvironment } from "../../../bench/processes.ts";
import { runProcess } from "../../../src/lib/run-process.ts";
import { ROOT, type TestPlatform } from "../platform.ts";

export interface Output {
  readonly output_type: string;
  readonly name?: string;
  readonly text?: string;
  readonly ename?: string;
  readonly evalue?: string;
  readonly data?: Readonly<Record<string, string>>;
}

/** Where Jupyter's kernel is installed; undefined, with the test skipped, where it cannot be. */
export async function environment(t: TestContext): Promise<string | undefined> {
  try {
    return await pythonEnvironment("notebook", ["ipykernel", "nbclient"]);
  } catch {
    t.skip("ipykernel and nbclient are not installed here and the package index cannot be reached");
  }
}

/** The environment of a kernel whose platform is `platform`, and which finds no svc: this machine may have one. */
export function kernelOf(platform: TestPlatform, bin: string): Record<string, string> {
  const folders = (process.env.PATH ?? "").split(":").filter((folder) => !existsSync(path.join(folder, "svc")));
  return {
    PATH: [bin, ...folders].join(":"),
    HOME: platform.dir,
    PYTHONPATH: path.join(ROOT, "python/src"),
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    CI: "1",
    NO_COLOR: "1",
  };
}

/** The outputs of each cell. */
export async function execute(bin: string, cells: readonly string[], cwd: string, env: Record<string, string>) {
  const script = path.join(import.meta.dirname, "execute.py");
  const run = await runProcess(path.join(bin, "python"), [script], { cwd, env, input: JSON.stringify(cells) });
  assert.equal(run.code, 0, run.stderr);
  return JSON.parse(run.stdout) as Output[][];
}
