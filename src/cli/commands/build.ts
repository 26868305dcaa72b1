import { relative } from "node:path";
import { command, jsonFlag, switchFlag } from "../command.ts";
import { buildDirectory, buildFlags } from "../deploy/build-directory.ts";
import { openText } from "../endpoints-view.ts";
import { formatSize } from "../format.ts";

export const buildCommand = command({
  brief: "Build the artifact of this directory without deploying it",
  text: "Finds every Endpoint, installs its dependencies for Linux x86_64 and packs .svc/artifact.tar.gz.",
  examples: [
    ["svc build", "Build and say what was built"],
    ["svc build --explain", "Show what was found and how it is configured"],
    ["svc build --exclude scipy,pandas", "Leave packages out of the artifact"],
  ],
  flags: {
    ...buildFlags,
    keepBuild: switchFlag("Keep the temporary directory .svc/.build"),
    explain: switchFlag("Show every endpoint's settings and functions, and what was left out"),
    json: jsonFlag,
  },
  aliases: { o: "output" },
  async run(flags) {
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
    for (const [name, resource] of resources) {
      if (resource.publicRoutes !== "") terminal.out(`${name}: ${openText(resource)}`);
    }
    if (flags.explain) {
      const { showExplanation } = await import("../deploy/explanation.ts");
      showExplanation(terminal, result);
    }
    terminal.note("\nNext: svc deploy");
  },
});
