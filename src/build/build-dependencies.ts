/** The dependency layers of a project, from the cache or newly installed; all failures together. */
import { INSTALLS_AT_ONCE } from "../domain/limits.ts";
import { installStep } from "../lib/install-output.ts";
import { InstallFailed } from "../lib/python-installer.ts";
import type { Diagnostic } from "./build-result.ts";
import { buildDependencyLayer, cachedDependencyLayer, type DependencyLayer } from "./dependency-layer.ts";
import type { DependencySet } from "./dependency-plan.ts";
import { BuildProblems, sortDiagnostics } from "./diagnostics.ts";
import { installProblem } from "./install-problem.ts";
import { chooseInstaller, type Install } from "./installer.ts";
import type { Interpreter } from "./interpreter.ts";
import type { LayerCache } from "./layer-cache.ts";

export interface DependencyBuild {
  readonly projectDir: string;
  readonly workDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly python: () => Promise<Interpreter>;
  readonly onProgress: (event: { step: string; detail?: string }) => void;
  readonly signal?: AbortSignal;
}

/** By the sets' keys. Throws DEPENDENCIES_FAILED with one diagnostic for each set that cannot be installed. */
export async function buildDependencies(
  sets: readonly DependencySet[],
  cache: LayerCache,
  build: DependencyBuild,
): Promise<Map<string, DependencyLayer>> {
  const layers = new Map<string, DependencyLayer>();
  for (const set of sets) {
    const cached = await cachedDependencyLayer(set, cache);
    if (cached !== undefined) layers.set(set.key, cached);
  }
  const missing = sets.filter(({ key }) => !layers.has(key));
  await Promise.all([...layers.keys()].map((key) => cache.touch("dependencies", key)));
  if (missing.length === 0) return layers;

  let chosen: Promise<Install> | undefined;
  const install = () => {
    chosen ??= chooseInstaller(build.env, build.python).then(({ name, install }) => {
      build.onProgress({ step: "dependencies", detail: `installing with ${name}` });
      return install;
    });
    return chosen;
  };
  const problems: Diagnostic[] = [];
  const waiting = [...missing];
  const work = async () => {
    for (let set = waiting.shift(); set !== undefined; set = waiting.shift()) {
      build.signal?.throwIfAborted();
      const layer = await buildOne(set, cache, build, install, problems);
      if (layer !== undefined) layers.set(set.key, layer);
    }
  };
  await Promise.all(Array.from({ length: INSTALLS_AT_ONCE }, work));
  if (problems.length > 0) throw new BuildProblems(sortDiagnostics(problems), "DEPENDENCIES_FAILED");
  return layers;
}

async function buildOne(
  set: DependencySet,
  cache: LayerCache,
  build: DependencyBuild,
  install: () => Promise<Install>,
  problems: Diagnostic[],
): Promise<DependencyLayer | undefined> {
  const named = set.endpoints.map((endpoint) => endpoint.name).join(", ");
  const progress = (detail: string) => build.onProgress({ step: "dependencies", detail });
  progress(`${named}: ${set.requirements.map(({ text }) => text).join(" ")}`);
  try {
    const { executable, version } = await build.python();
    return await buildDependencyLayer(set, cache, {
      projectDir: build.projectDir,
      workDir: build.workDir,
      env: build.env,
      install,
      compiler: version === set.pythonVersion ? executable : undefined,
      onLine: (line) => {
        const step = installStep(line);
        if (step !== undefined) progress(`${named}: ${step}`);
      },
      signal: build.signal,
    });
  } catch (error) {
    if (!(error instanceof InstallFailed)) throw error;
    problems.push(installProblem(set, error.output));
    return undefined;
  }
}
