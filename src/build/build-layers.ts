/** scan → dependency layers → source layer → manifest. User code never runs, and the project's folder stays as it is. */
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { PYTHON_MINOR_MAX, PYTHON_MINOR_MIN } from "../domain/limits.ts";
import { checkSourceSize } from "./artifact-size.ts";
import { buildDependencies } from "./build-dependencies.ts";
import type { BuildResult, BuiltLayer } from "./build-result.ts";
import type { DependencyLayer } from "./dependency-layer.ts";
import { type DependencySet, planDependencies } from "./dependency-plan.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import { endpointLayers } from "./endpoint-layers.ts";
import { handlerPath, handlerSource } from "./handlers.ts";
import { type FindPythonOptions, findPython, type Interpreter } from "./interpreter.ts";
import type { LayerCache } from "./layer-cache.ts";
import { makeManifest } from "./manifest.ts";
import type { ProjectFile } from "./project-files.ts";
import type { PythonScanner } from "./python-scanner.ts";
import type { ScanMemory } from "./read-facts.ts";
import { normalizedName, parseRequirement } from "./requirement.ts";
import { requireScan, type Scan, scanProject } from "./scan.ts";
import { buildSourceLayer, codeDigest } from "./source-layer.ts";

export interface LayerOptions {
  readonly projectDir: string;
  /** Where packages are installed; need not exist. */
  readonly workDir: string;
  /** A file of the project that is no part of it, relative to the project. */
  readonly leaveOut?: string;
  /** Install what is listed and nothing it asks for. */
  readonly noDeps?: boolean;
  /** Packages that stay out, also when others ask for them. */
  readonly exclude?: readonly string[];
  /** Layers and records shared by all projects of the user. */
  readonly cache: LayerCache;
  /** Command or path; default python3. */
  readonly python?: string;
  /** The interpreter, when the caller has found it already. */
  readonly interpreter?: () => Promise<Interpreter>;
  /** For the interpreter and the installer, and for os.environ["X"] in `env=`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What is built of the endpoints that were found; throws what is wrong with them. */
  readonly adjust?: (endpoints: Scan["endpoints"]) => Scan["endpoints"];
  /** Each change of a file is one of every endpoint: whoever compares whole builds must see it. */
  readonly changesTogether?: boolean;
  readonly scanMemory?: ScanMemory;
  /** Reads the files instead of a Python that is started for it. */
  readonly scanner?: PythonScanner;
  /** Called with what the scan found, before anything is installed; what it throws ends the build. */
  readonly onScan?: (endpoints: Scan["endpoints"]) => Promise<void>;
  readonly onProgress?: (event: { readonly step: string; readonly detail?: string }) => void;
  readonly signal?: AbortSignal;
}

/** What a platform needs to run the project. */
export interface LayersBuild extends Omit<BuildResult, "artifactPath" | "artifactBytes"> {
  readonly scan: Scan;
  /** With what each holds, for `--explain`. */
  readonly dependencies: readonly { readonly set: DependencySet; readonly layer: DependencyLayer }[];
  /** Of the source layer. */
  readonly files: readonly ProjectFile[];
  /** Names that --exclude lists. */
  readonly excluded: { readonly left: readonly string[]; readonly unknown: readonly string[] };
  /** "hello.py" → its text. */
  readonly handlers: ReadonlyMap<string, string>;
}

/** Throws BuildProblems with all findings (BUILD_FAILED, NO_ENDPOINTS, DEPENDENCIES_FAILED) or TOOL_MISSING. */
export async function buildLayers(options: LayerOptions): Promise<LayersBuild> {
  const { projectDir, env, cache } = options;
  const progress = options.onProgress ?? (() => {});
  const python = options.interpreter ?? once(() => localPython({ command: options.python, projectDir, cache, env }));

  progress({ step: "scan" });
  const { scanMemory: memory, scanner } = options;
  const found = await scanProject({ projectDir, environment: env, python, memory, scanner });
  requireScan(found);
  const files = found.files.files.filter((file) => file.path !== options.leaveOut);
  checkSourceSize(files);
  const scan = options.adjust === undefined ? found : { ...found, endpoints: options.adjust(found.endpoints) };
  await options.onScan?.(scan.endpoints);
  options.signal?.throwIfAborted();

  const sets = await plan(scan.endpoints, options, python);
  const { workDir, signal } = options;
  const built = await buildDependencies(sets, cache, {
    projectDir,
    workDir,
    env,
    python,
    onProgress: progress,
    signal,
  });
  const dependencies = sets.map((set) => ({ set, layer: built.get(set.key)! }));
  signal?.throwIfAborted();

  progress({ step: "sources" });
  const { endpoints } = scan;
  const handlers = new Map(endpoints.map((each) => [path.posix.basename(handlerPath(each.name)), handlerSource(each)]));
  const source = await buildSourceLayer(projectDir, files, handlers, cache, signal);
  signal?.throwIfAborted();

  const layersOf = await endpointLayers(endpoints, dependencies, options.exclude ?? [], python);
  const code = ({ name }: EndpointDeclaration) =>
    options.changesTogether ? undefined : codeDigest(source.contents, handlerPath(name), scan.reach.get(name) ?? null);
  const manifest = makeManifest(
    endpoints,
    (each) => ({ ...layersOf.get(each.name)!, codeDigest: code(each) }),
    source.digest,
  );
  const layers: BuiltLayer[] = [
    ...dependencies.map(({ layer }) => ({ ...pick(layer), kind: "dependencies" as const })),
    { ...pick(source), kind: "source" },
  ];
  const leftOut = endpoints.map(({ name }) => [name, layersOf.get(name)!.baseDependencies] as const);
  return {
    manifest,
    layers,
    env: Object.fromEntries(endpoints.map((endpoint) => [endpoint.name, endpoint.env])),
    warnings: scan.diagnostics,
    excluded: excluded(options.exclude ?? [], endpoints, dependencies),
    leftOut: Object.fromEntries(leftOut.filter(([, base]) => base.length > 0)),
    scan,
    dependencies,
    files,
    handlers,
  };
}

/** Of what --exclude lists: what was asked for and stayed out, and what nothing asks for. */
function excluded(
  names: readonly string[],
  endpoints: readonly EndpointDeclaration[],
  dependencies: LayersBuild["dependencies"],
): LayersBuild["excluded"] {
  const declared = endpoints.flatMap((each) => each.dependencies).flatMap((text) => parseRequirement(text)?.name ?? []);
  const asked = new Set([...declared, ...dependencies.flatMap(({ layer }) => layer.leftOut ?? [])]);
  const isKnown = (name: string) => asked.has(normalizedName(name));
  // A layer of an earlier version does not say what it was asked for.
  const sure = dependencies.every(({ layer }) => layer.leftOut !== undefined);
  return { left: names.filter(isKnown), unknown: sure ? names.filter((name) => !isKnown(name)) : [] };
}

async function plan(
  endpoints: readonly EndpointDeclaration[],
  options: LayerOptions,
  python: () => Promise<Interpreter>,
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
    env: options.env,
  });
}

/** The interpreter of this machine. Throws TOOL_MISSING when there is none, or one that is too old. */
export async function localPython(options: FindPythonOptions): Promise<Interpreter> {
  const interpreter = await findPython(options);
  const minor = Number(interpreter.version.split(".")[1]);
  if (minor >= PYTHON_MINOR_MIN && minor <= PYTHON_MINOR_MAX && interpreter.version.startsWith("3."))
    return interpreter;
  throw new SvcError(
    "TOOL_MISSING",
    `${interpreter.executable} is Python ${interpreter.version}; endpoints need 3.${PYTHON_MINOR_MIN} to 3.${PYTHON_MINOR_MAX}.`,
    { help: "Install a newer Python, or put one first on the PATH." },
  );
}

function pick({ digest, sizeBytes, path: file }: { digest: string; sizeBytes: number; path: string }) {
  return { digest, sizeBytes, path: file };
}

/** Remembers the answer of the first call. */
export function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
