/**
 * What the wanted test files need from the machine, installed before the first of them runs: installing takes longer than
 * a test may, and the package manager serves one at a time.
 */
import { readFileSync } from "node:fs";
import { findChromium } from "./browser.ts";
import { holdDocker } from "./docker.ts";
import { findPrometheus } from "./prometheus.ts";

/** Resolves what ends it. */
export async function setUp(files: readonly string[]): Promise<() => Promise<void>> {
  const texts = files.map((file) => readFileSync(file, "utf8"));
  const needs = (module: string) => texts.some((text) => text.includes(`/${module}"`));
  if (needs("browser.ts")) await findChromium();
  if (needs("prometheus.ts")) await findPrometheus();
  if (!needs("docker.ts")) return async () => {};
  const { release } = await holdDocker();
  return release;
}
