/**
 * What the wanted test files share, made before the first of them runs: programs of the machine, whose installation takes longer
 * than a test may and is done by a package manager that serves one at a time, and the packages that we hand out.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { findChromium } from "./browser.ts";
import { installClients } from "./client-packages.ts";
import { holdDocker } from "./docker.ts";
import { makeProgram } from "./make-program.ts";
import { makeHandedOut } from "./package.ts";
import { findPostgres } from "./postgres.ts";
import { findPrometheus } from "./prometheus.ts";
import { findS3 } from "./s3.ts";

/** Resolves what ends it. */
export async function setUp(files: readonly string[]): Promise<() => Promise<void>> {
  const texts = files.map((file) => readFileSync(file, "utf8"));
  const needs = (module: string) => texts.some((text) => text.includes(`/${module}"`));
  passShims();
  if (needs("browser.ts")) await findChromium();
  if (needs("prometheus.ts")) await findPrometheus();
  if (needs("postgres.ts")) await findPostgres();
  if (needs("s3.ts")) await findS3();
  if (needs("client-packages.ts")) await installClients();
  if (files.some((file) => /\/test\/(e2e|campaign|security|dev|cli|console|docs|host|build)\//.test(file)))
    process.env.SVC_TEST_PROGRAM ??= await makeProgram();
  const folder = needs("package.ts") ? mkdtempSync(path.join(tmpdir(), "svc-dist-")) : undefined;
  if (folder !== undefined) {
    // Whoever the files run as may install it.
    chmodSync(folder, 0o755);
    // What cannot be made is tried again by the files that need it, which then say why.
    const made = await makeHandedOut(folder).catch(() => undefined);
    if (made !== undefined) process.env.SVC_TEST_DIST = JSON.stringify(made);
  }
  const docker = needs("docker.ts") ? await holdDocker() : undefined;
  return async () => {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    await docker?.release();
  };
}

/** Version managers put a script where python3 is looked for, which starts ten processes before each Python: who is behind it comes first. */
function passShims(): void {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  const found = folders.map((folder) => path.join(folder, "python3")).find((file) => existsSync(file));
  if (found === undefined || readFileSync(found).subarray(0, 2).toString() !== "#!") return;
  const code = "import os, sys; print(os.path.dirname(sys.executable))";
  const real = execFileSync(found, ["-c", code], { encoding: "utf8" }).trim();
  process.env.PATH = [real, ...folders].join(path.delimiter);
}
