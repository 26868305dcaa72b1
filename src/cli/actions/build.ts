import { relative } from "node:path";
import type { CliContext } from "../context.ts";
import { type BuildFlags, buildDirectory } from "../deploy/build-directory.ts";
import { formatSize } from "../deploy/format-size.ts";

interface Flags extends BuildFlags {
  readonly keepBuild?: boolean;
  readonly explain?: boolean;
  readonly json?: boolean;
}

export async function build(this: CliContext, flags: Flags): Promise<void> {
  const { terminal, cwd } = this;
  const result = await buildDirectory(this, flags);
  const resources = Object.entries(result.manifest.resources);
  if (flags.json) {
    // Named one by one: the values of env= are part of the result and must not be printed.
    const { manifest, layers, artifactPath, artifactBytes, leftOut, warnings } = result;
    const { explainBuild } = await import("../../build/explain.ts");
    const explanation = flags.explain ? { explanation: explainBuild(result) } : {};
    terminal.json({ manifest, layers, artifactPath, artifactBytes, leftOut, warnings, ...explanation });
    return;
  }
  const archive = `${relative(cwd, result.artifactPath)} (${formatSize(result.artifactBytes)})`;
  terminal.out(`Built ${resources.length === 1 ? "1 endpoint" : `${resources.length} endpoints`} into ${archive}.`);
  await terminal.table(
    ["ENDPOINT", "KIND", "RUNS ON", "WORKERS"],
    resources.map(([name, resource]) => [
      name,
      resource.is_load_balanced ? "load-balanced" : "queue",
      resource.gpuIds === "" ? resource.instanceIds : `GPU ${resource.gpuIds}`,
      `${resource.workersMin} to ${resource.workersMax}`,
    ]),
  );
  if (flags.explain) {
    const { showExplanation } = await import("../deploy/explanation.ts");
    showExplanation(terminal, result);
  }
  terminal.note("\nNext: svc deploy");
}
