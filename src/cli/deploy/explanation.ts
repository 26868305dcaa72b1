import type { ProjectBuild } from "../../build/build.ts";
import { explainBuild } from "../../build/explain.ts";
import type { Manifest, ManifestFunction } from "../../domain/manifest.ts";
import type { Terminal } from "../terminal.ts";

/** Everything that was found, endpoint by endpoint, then every file and package: the answer to "why is it like this?". */
export function showExplanation(terminal: Terminal, result: ProjectBuild): void {
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
  for (const { title, rows } of explainBuild(result)) {
    terminal.out();
    terminal.out(bold(title));
    const width = Math.max(...rows.map((row) => row.what.length));
    for (const { what, why } of rows) terminal.out(`  ${what.padEnd(width)}  ${why}`);
  }
}

function callables(manifest: Manifest, name: string): string[] {
  const functions = manifest.resources[name]!.functions;
  const routes = Object.entries(manifest.routes[name] ?? {});
  if (routes.length === 0) return functions.flatMap(callable);
  return routes.map(([route, functionName]) => {
    const fn = functions.find((candidate) => candidate.name === functionName);
    return `${route.padEnd(20)} ${fn === undefined ? functionName : `${fn.module}.${signature(fn)}`}`;
  });
}

/** A function, or a class with each method that a job may name. */
function callable(fn: ManifestFunction): string[] {
  if (fn.kind === "function") return [`function       ${fn.module}.${signature(fn)}`];
  const methods = Object.entries(fn.methodParameters ?? {});
  return [
    `class          ${fn.module}.${fn.name}`,
    ...methods.map(([name, parameters]) => `method         ${signature({ name, parameters })}`),
  ];
}

function signature(fn: Pick<ManifestFunction, "name" | "parameters">): string {
  const parameters = fn.parameters.map(
    ({ name, annotation, default: preset }) =>
      `${name}${annotation === "" ? "" : `: ${annotation}`}${preset === null ? "" : ` = ${preset}`}`,
  );
  return `${fn.name}(${parameters.join(", ")})`;
}
