/** scan → dependency layers → source layer → manifest → archive. User code never runs. */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { ARTIFACT_MAX_BYTES, PYTHON_MINOR_MAX, PYTHON_MINOR_MIN } from "../domain/limits.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { artifactTail, manifestText, writeArtifact } from "./artifact.ts";
import { checkArtifactSize } from "./artifact-size.ts";
import { buildDependencies } from "./build-dependencies.ts";
import type { BuildResult, BuiltLayer } from "./build-result.ts";
import type { SyntaxMemory } from "./check-syntax.ts";
import type { DependencyLayer } from "./dependency-layer.ts";
import { type DependencySet, planDependencies } from "./dependency-plan.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import { endpointLayers, requirementsText } from "./endpoint-layers.ts";
import { fileProblem } from "./file-problem.ts";
import { handlerPath, handlerSource } from "./handlers.ts";
import { findPython, type Interpreter } from "./interpreter.ts";
import { LayerCache, projectKey } from "./layer-cache.ts";
import { makeManifest } from "./manifest.ts";
import { requireScan, type Scan, scanProject } from "./scan.ts";
import { buildSourceLayer } from "./source-layer.ts";
import { removeWorkDirectory, workDirectory } from "./work-directory.ts";

export interface BuildOptions {
  readonly projectDir: string;
  /** Archive name inside .svc/, or a path; default artifact.tar.gz. */
  readonly output?: string;
  /** Install what is listed and nothing it asks for. */
  readonly noDeps?: boolean;
  /** Packages that stay out, also when others ask for them. */
  readonly exclude?: readonly string[];
  /** Leave .svc/.build/ in place. */
  readonly keepBuild?: boolean;
  /** Layers and records shared by all projects of the user. */
  readonly cacheDir: string;
  /** Command or path; default python3. */
  readonly python?: string;
  /** For the interpreter and the installer, and for os.environ["X"] in `env=`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly artifactMaxBytes?: number;
  readonly onProgress?: (event: { readonly step: string; readonly detail?: string }) => void;
  readonly signal?: AbortSignal;
}

export interface ProjectBuild extends BuildResult {
  readonly scan: Scan;
  /** With what each holds, for `--explain`. */
  readonly dependencies: readonly { readonly set: DependencySet; readonly layer: DependencyLayer }[];
}

/**
 * Writes .svc/artifact.tar.gz and .svc/svc_manifest.json. Throws BuildProblems with all findings (BUILD_FAILED,
 * NO_ENDPOINTS, DEPENDENCIES_FAILED), ARTIFACT_TOO_LARGE or TOOL_MISSING.
 */
export async function buildProject(options: BuildOptions): Promise<ProjectBuild> {
  try {
    return await build(options);
  } catch (error) {
    throw fileProblem(error, path.resolve(options.cacheDir));
  }
}

async function build(options: BuildOptions): Promise<ProjectBuild> {
  const projectDir = path.resolve(options.projectDir);
  const { env } = options;
  const progress = options.onProgress ?? (() => {});
  const cache = new LayerCache(options.cacheDir);
  const python = once(() => localPython({ command: options.python, projectDir, cacheDir: options.cacheDir, env }));

  progress({ step: "scan" });
  const scan = await scanProject({
    projectDir,
    environment: env,
    python,
    syntaxMemory: syntaxMemory(cache, projectDir),
  });
  requireScan(scan);
  options.signal?.throwIfAborted();

  const workDir = workDirectory(projectDir, options.keepBuild ?? false);
  try {
    const sets = await plan(scan.endpoints, options, python, env);
    const built = await buildDependencies(sets, cache, {
      projectDir,
      workDir,
      env,
      python,
      onProgress: progress,
      signal: options.signal,
    });
    const dependencies = sets.map((set) => ({ set, layer: built.get(set.key)! }));

    options.signal?.throwIfAborted();
    return await pack(options, { projectDir, workDir, scan, dependencies, cache, python, progress });
  } finally {
    if (!options.keepBuild) await removeWorkDirectory(workDir);
  }
}

interface Packing {
  readonly projectDir: string;
  readonly workDir: string;
  readonly scan: Scan;
  readonly dependencies: ProjectBuild["dependencies"];
  readonly cache: LayerCache;
  readonly python: () => Promise<Interpreter>;
  readonly progress: (event: { readonly step: string }) => void;
}

/** Source layer, manifest and archive, once the dependency layers are there. */
async function pack(options: BuildOptions, packing: Packing): Promise<ProjectBuild> {
  const { projectDir, scan, dependencies, cache } = packing;
  const { endpoints } = scan;
  const artifactPath = path.resolve(projectDir, ".svc", options.output ?? "artifact.tar.gz");
  packing.progress({ step: "sources" });
  const handlers = new Map(endpoints.map((each) => [path.posix.basename(handlerPath(each.name)), handlerSource(each)]));
  // An archive that --output put into the project is not a part of it.
  const files = scan.files.files.filter((file) => path.join(projectDir, file.path) !== artifactPath);
  const source = await buildSourceLayer(projectDir, files, handlers, cache);
  options.signal?.throwIfAborted();

  packing.progress({ step: "archive" });
  const layersOf = await endpointLayers(endpoints, dependencies, options.exclude ?? [], packing.python);
  const manifest = makeManifest(endpoints, (each) => layersOf.get(each.name)!, source.digest);
  const requirements = requirementsText(dependencies);
  const tail = await artifactTail(manifest, requirements);
  const layers: BuiltLayer[] = [
    ...dependencies.map(({ layer }) => ({ ...pick(layer), kind: "dependencies" as const })),
    { ...pick(source), kind: "source" },
  ];
  const artifactBytes = tail.length + layers.reduce((sum, layer) => sum + layer.sizeBytes, 0);
  const installed = dependencies.map(({ layer }) => layer);
  checkArtifactSize(artifactBytes, options.artifactMaxBytes ?? ARTIFACT_MAX_BYTES, installed, files);
  await writeArtifact(artifactPath, layers, tail, cache);
  await writeBeside(projectDir, manifestText(manifest));
  if (options.keepBuild) await keepHandlers(packing.workDir, handlers, requirements);
  const leftOut = endpoints.map(({ name }) => [name, layersOf.get(name)!.baseDependencies] as const);
  return {
    manifest,
    layers,
    artifactPath,
    artifactBytes,
    env: Object.fromEntries(endpoints.map((endpoint) => [endpoint.name, endpoint.env])),
    warnings: scan.diagnostics,
    leftOut: Object.fromEntries(leftOut.filter(([, base]) => base.length > 0)),
    scan,
    dependencies,
  };
}

async function plan(
  endpoints: readonly EndpointDeclaration[],
  options: BuildOptions,
  python: () => Promise<Interpreter>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<DependencySet[]> {
  const needsLocal = endpoints.some(
    (endpoint) => endpoint.pythonVersion === undefined || endpoint.dependencies.length > 0,
  );
  const local = needsLocal ? (await python()).version : undefined;
  return planDependencies(endpoints, {
    noDeps: options.noDeps ?? false,
    exclude: options.exclude ?? [],
    localVersion: local,
    bytecode: local !== undefined,
    env,
  });
}

async function localPython(options: Parameters<typeof findPython>[0]): Promise<Interpreter> {
  const interpreter = await findPython(options);
  const minor = Number(interpreter.version.split(".")[1]);
  if (minor >= PYTHON_MINOR_MIN && minor <= PYTHON_MINOR_MAX && interpreter.version.startsWith("3."))
    return interpreter;
  throw new SvcError(
    "TOOL_MISSING",
    `${interpreter.executable} is Python ${interpreter.version}; endpoints need 3.${PYTHON_MINOR_MIN} to 3.${PYTHON_MINOR_MAX}.`,
    {
      help: "Install a newer Python, or put one first on the PATH.",
    },
  );
}

/** The manifest beside the archive, and a .gitignore so that build outputs are not committed. */
async function writeBeside(projectDir: string, manifest: string): Promise<void> {
  const folder = path.join(projectDir, ".svc");
  const file = path.join(folder, "svc_manifest.json");
  if (!existsSync(file) || readFileSync(file, "utf8") !== manifest) await writeFileAtomic(file, manifest);
  const ignore = path.join(folder, ".gitignore");
  if (!existsSync(ignore)) await writeFile(ignore, "*\n");
}

async function keepHandlers(
  workDir: string,
  handlers: ReadonlyMap<string, string>,
  requirements: string,
): Promise<void> {
  await rm(path.join(workDir, "handlers"), { recursive: true, force: true });
  await mkdir(path.join(workDir, "handlers"), { recursive: true });
  for (const [name, text] of handlers) await writeFile(path.join(workDir, "handlers", name), text);
  await writeFile(path.join(workDir, "requirements.txt"), requirements);
}

function syntaxMemory(cache: LayerCache, projectDir: string): SyntaxMemory {
  const key = projectKey(projectDir);
  return {
    accepted: () => cache.record<string[]>("syntax", key) ?? [],
    remember: (accepted) => cache.remember("syntax", key, accepted),
  };
}

function pick({ digest, sizeBytes, path: file }: { digest: string; sizeBytes: number; path: string }) {
  return { digest, sizeBytes, path: file };
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
