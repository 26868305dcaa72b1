/** The layers of a project (build-layers.ts), packed into one archive. */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { ARTIFACT_MAX_BYTES } from "../domain/limits.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { artifactTail, manifestText, writeArtifact } from "./artifact.ts";
import { checkArtifactSize } from "./artifact-size.ts";
import { buildLayers, type LayersBuild } from "./build-layers.ts";
import type { BuildResult } from "./build-result.ts";
import { requirementsText } from "./endpoint-layers.ts";
import { fileProblem } from "./file-problem.ts";
import { LayerCache, projectKey } from "./layer-cache.ts";
import type { ScanMemory } from "./read-facts.ts";
import type { Scan } from "./scan.ts";
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
  /** Holds the key that proves the cache's records. */
  readonly configDir: string;
  /** Command or path; default python3. */
  readonly python?: string;
  /** For the interpreter and the installer, and for os.environ["X"] in `env=`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly artifactMaxBytes?: number;
  /** Called with what the scan found, before anything is installed; what it throws ends the build. */
  readonly onScan?: (endpoints: Scan["endpoints"]) => Promise<void>;
  readonly onProgress?: (event: { readonly step: string; readonly detail?: string }) => void;
  readonly signal?: AbortSignal;
}

export type ProjectBuild = BuildResult & LayersBuild;

/**
 * Writes .svc/artifact.tar.gz and .svc/svc_manifest.json. Throws BuildProblems with all findings (BUILD_FAILED,
 * NO_ENDPOINTS, DEPENDENCIES_FAILED), ARTIFACT_TOO_LARGE or TOOL_MISSING.
 */
export async function buildProject(options: BuildOptions): Promise<ProjectBuild> {
  try {
    return await build(options);
  } catch (error) {
    const [cacheDir, projectDir] = [path.resolve(options.cacheDir), path.resolve(options.projectDir)];
    throw fileProblem(error, { cacheDir, projectDir });
  }
}

async function build(options: BuildOptions): Promise<ProjectBuild> {
  const projectDir = path.resolve(options.projectDir);
  const workDir = workDirectory(projectDir, options.keepBuild ?? false);
  const artifactPath = path.resolve(projectDir, ".svc", options.output ?? "artifact.tar.gz");
  const cache = new LayerCache(options);
  try {
    // An archive that --output put into the project is not a part of it.
    const leaveOut = path.relative(projectDir, artifactPath);
    const scanMemory = memoryOf(cache, projectDir);
    const built = await buildLayers({ ...options, cache, projectDir, workDir, leaveOut, scanMemory });
    return await pack(options, { built, projectDir, workDir, artifactPath, cache });
  } finally {
    if (!options.keepBuild) await removeWorkDirectory(workDir);
  }
}

interface Packing {
  readonly built: LayersBuild;
  readonly projectDir: string;
  readonly workDir: string;
  readonly artifactPath: string;
  readonly cache: LayerCache;
}

/** The archive, and what stands beside it. */
async function pack(options: BuildOptions, packing: Packing): Promise<ProjectBuild> {
  const { built, projectDir, workDir, artifactPath, cache } = packing;
  const { manifest, layers, dependencies, files } = built;
  options.signal?.throwIfAborted();
  options.onProgress?.({ step: "archive" });
  const requirements = requirementsText(dependencies);
  const tail = await artifactTail(manifest, requirements);
  const artifactBytes = tail.length + layers.reduce((sum, layer) => sum + layer.sizeBytes, 0);
  const installed = dependencies.map(({ layer }) => layer);
  checkArtifactSize(artifactBytes, options.artifactMaxBytes ?? ARTIFACT_MAX_BYTES, installed, files);
  await writeArtifact(artifactPath, layers, tail, cache);
  await writeBeside(projectDir, manifestText(manifest));
  if (options.keepBuild) await keepHandlers(workDir, built.handlers, requirements);
  return { ...built, artifactPath, artifactBytes };
}

/** The manifest beside the archive, and a .gitignore so that build outputs are not committed; the wheel that `svc init` put there is. */
async function writeBeside(projectDir: string, manifest: string): Promise<void> {
  const folder = path.join(projectDir, ".svc");
  const file = path.join(folder, "svc_manifest.json");
  if (!existsSync(file) || readFileSync(file, "utf8") !== manifest) await writeFileAtomic(file, manifest);
  const ignore = path.join(folder, ".gitignore");
  if (!existsSync(ignore)) await writeFile(ignore, "*\n!/wheels/\n!/wheels/*\n");
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

function memoryOf(cache: LayerCache, projectDir: string): ScanMemory {
  const project = projectKey(projectDir);
  return {
    recall: () => cache.record("scans", project),
    remember: (facts) => cache.remember("scans", project, facts),
  };
}
