import type { BuildResult } from "../../build/build-result.ts";
import type { Manifest, ManifestFunction } from "../../domain/manifest.ts";
import type { Terminal } from "../terminal.ts";

/** "12 B", "3.4 kB", "1.5 GB": decimal, as the artifact's limit is. */
export function formatSize(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** Everything that was found, endpoint by endpoint: the answer to "why is it like this?". */
export function explainBuild(terminal: Terminal, result: BuildResult): void {
  const { bold } = terminal.colors;
  for (const [name, resource] of Object.entries(result.manifest.resources)) {
    terminal.out();
    terminal.out(bold(name));
    const rows: [label: string, value: string][] = [
      ["python", resource.pythonVersion],
      ["idle time-out", `${resource.idleTimeout} s`],
      ["concurrency", `${resource.maxConcurrency} at once`],
      ["time limit", `${resource.executionTimeoutMs / 1000} s`],
      ["scaling", `${resource.scalerType} ${resource.scalerValue}`],
      ["boot", resource.svcBootType],
      ["dependencies", resource.dependencies.join(", ") || "none"],
      ["from base", resource.baseDependencies.join(", ") || "none"],
      ["variables", resource.envNames.join(", ") || "none"],
    ];
    for (const [label, value] of rows) terminal.out(`  ${label.padEnd(15)}${value}`);
    for (const line of callables(result.manifest, name)) terminal.out(`  ${line}`);
  }
  terminal.out();
  terminal.out(bold("layers"));
  for (const layer of result.layers) {
    terminal.out(`  ${layer.kind.padEnd(15)}${formatSize(layer.sizeBytes).padEnd(10)}${layer.digest.slice(0, 12)}`);
  }
}

function callables(manifest: Manifest, name: string): string[] {
  const functions = manifest.resources[name]!.functions;
  const routes = Object.entries(manifest.routes[name] ?? {});
  if (routes.length === 0) return functions.map((fn) => `function       ${fn.module}.${signature(fn)}`);
  return routes.map(([route, functionName]) => {
    const fn = functions.find((candidate) => candidate.name === functionName);
    return `${route.padEnd(20)} ${fn === undefined ? functionName : `${fn.module}.${signature(fn)}`}`;
  });
}

function signature(fn: ManifestFunction): string {
  const parameters = fn.parameters.map(
    ({ name, annotation, default: preset }) =>
      `${name}${annotation === "" ? "" : `: ${annotation}`}${preset === null ? "" : ` = ${preset}`}`,
  );
  return `${fn.name}(${parameters.join(", ")})`;
}
