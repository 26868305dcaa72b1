/** The dependency layers of a project, from the cache or newly installed; all failures together. */
import { INSTALLS_AT_ONCE } from "../domain/limits.ts";
import { type InstallFailure, installComplaint, installFailure, installStep } from "../python/install-output.ts";
import { InstallFailed } from "../python/installer.ts";
import type { Diagnostic } from "./build-result.ts";
import { buildDependencyLayer, cachedDependencyLayer, type DependencyLayer } from "./dependency-layer.ts";
import { type DependencySet, PLATFORM } from "./dependency-plan.ts";
import { BuildProblems, sortDiagnostics } from "./diagnostics.ts";
import { chooseInstaller, type Install } from "./installer.ts";
import type { Interpreter } from "./interpreter.ts";
import type { LayerCache } from "./layer-cache.ts";

interface DependencyBuild {
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
  let count = { begun: 0, all: 0 };
  let told = 0;
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
        const of = `${count.begun} of ${count.all}`;
        if (step !== undefined) progress(`${named}: ${step}${count.all === 0 ? "" : `, ${of}`}`);
        else if (count.begun > told) progress(`${named}: package ${of}`);
        told = count.begun;
      },
      onCount: (begun, all) => {
        count = { begun, all };
      },
      signal: build.signal,
    });
  } catch (error) {
    if (!(error instanceof InstallFailed)) throw error;
    problems.push(installProblem(set, error.output));
    return undefined;
  }
}

const LINES_MAX = 15;

/** What the installer said, with the requirement it is about and the endpoints that asked for it. */
export function installProblem(set: DependencySet, output: string): Diagnostic {
  const said = installComplaint(output, LINES_MAX);
  const text = said.join("\n");
  const blamed = set.requirements.filter(({ name }) => mentions(text, name));
  const asked = blamed.length > 0 ? blamed : set.requirements;
  const requirements = asked.map((requirement) => `"${requirement.text}"`).join(", ");
  const endpoints = set.endpoints.map((endpoint) => `"${endpoint.name}"`).join(", ");
  const indented = said.map((line) => `    ${line}`).join("\n");
  return {
    severity: "error",
    rule: "dependency-install",
    message: `${requirements} of endpoint ${endpoints} cannot be installed for Linux x86_64, Python ${set.pythonVersion}:\n${indented}`,
    help: WAYS_OUT[installFailure(output)](set.pythonVersion),
    ...set.endpoints[0]!.dependenciesPlace,
  };
}

function mentions(text: string, name: string): boolean {
  return new RegExp(`(^|[^a-z0-9-])${name.replaceAll("-", "[-_.]+")}($|[^a-z0-9-])`, "im").test(text);
}

const WAYS_OUT: Readonly<Record<InstallFailure, (pythonVersion: string) => string>> = {
  network: () => "The package index cannot be reached: check the network and the index settings of pip or uv.",
  credentials: () => "Check the credentials of the package index in your pip or uv configuration.",
  "not-found": (version) =>
    `Check the name and the version. Only wheels for ${PLATFORM} or for any platform are installed; python_version= chooses another Python than ${version}.`,
  conflict: () => "Loosen one of the versions, or move the packages to different endpoints: each endpoint has its own.",
  other: () => "Try the same requirements with pip install --dry-run to see more.",
};
