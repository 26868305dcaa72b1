/** Builds the layer of one dependency set: install → take out what stays out → compile → pack. Cached by its key. */
import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { DEPENDENCY_LAYERS_KEPT, DEPENDENCY_LAYERS_KEPT_BYTES, GZIP_LEVEL_DEPENDENCIES } from "../domain/limits.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { runProcess } from "../lib/run-process.ts";
import type { TarEntry } from "../lib/tar-pack.ts";
import { dependencyClosure } from "./dependency-closure.ts";
import { type DependencySet, isBase } from "./dependency-plan.ts";
import { cleanTree, installedDistributions, removeDistribution } from "./installed-tree.ts";
import type { Install } from "./installer.ts";
import type { CachedLayer, LayerCache } from "./layer-cache.ts";
import { targetEnvironment } from "./marker.ts";

export interface PackageSize {
  readonly name: string;
  readonly version: string;
  /** Unpacked. */
  readonly sizeBytes: number;
}

export interface DependencyLayer extends CachedLayer {
  readonly key: string;
  /** "name==version" of all that is inside, sorted. */
  readonly lock: readonly string[];
  /** Requirements on base packages that the installed packages have: "numpy>=1.26". */
  readonly base: readonly string[];
  /** Names that were asked for and stay out; undefined in records of earlier versions. */
  readonly leftOut?: readonly string[];
  readonly packages: readonly PackageSize[];
  /** Nothing was installed: it was in the cache. */
  readonly cached: boolean;
}

interface LayerRecord {
  readonly digest: string;
  readonly sizeBytes: number;
  readonly lock: readonly string[];
  readonly base: readonly string[];
  readonly leftOut?: readonly string[];
  readonly packages: readonly PackageSize[];
}

export interface LayerBuild {
  readonly projectDir: string;
  /** Folder for this build's own files. */
  readonly workDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly install: () => Promise<Install>;
  /** Interpreter that compiles bytecode, when the set is for its version. */
  readonly compiler: string | undefined;
  readonly onLine?: (line: string) => void;
  readonly onCount?: (begun: number, all: number) => void;
  readonly signal?: AbortSignal;
}

export async function cachedDependencyLayer(
  set: DependencySet,
  cache: LayerCache,
): Promise<DependencyLayer | undefined> {
  const record = cache.record<LayerRecord>("dependencies", set.key);
  const layer = record && (await cache.find(record.digest, record.sizeBytes));
  if (layer === undefined || record === undefined) return undefined;
  const { lock, base, leftOut, packages } = record;
  return { ...layer, key: set.key, lock, base, leftOut, packages, cached: true };
}

/** Throws InstallFailed with the installer's words. */
export async function buildDependencyLayer(
  set: DependencySet,
  cache: LayerCache,
  build: LayerBuild,
): Promise<DependencyLayer> {
  const target = path.join(build.workDir, "deps", set.key);
  const scratch = path.join(build.workDir, "scratch", set.key);
  for (const folder of [target, scratch]) {
    await rm(folder, { recursive: true, force: true });
    makeFolder(folder);
  }
  const install = await build.install();
  const { projectDir, env, onLine, onCount, signal } = build;
  await install({ set, target, scratch, projectDir, env, onLine, onCount, signal });
  const { base, leftOut } = leaveOut(set, target);
  cleanTree(target);
  if (build.compiler !== undefined) await compileBytecode(build.compiler, target, scratch, build);
  await rm(scratch, { recursive: true, force: true });
  const installed = installedDistributions(target);
  const lock = installed.map(({ name, version }) => `${name}==${version}`).sort();
  writeFileSync(path.join(target, "requirements.lock"), lock.map((line) => `${line}\n`).join(""));
  const packages = installed.map(({ name, version, sizeBytes }) => ({ name, version, sizeBytes }));
  const layer = await cache.write(treeEntries(target, `deps/${set.key}`), GZIP_LEVEL_DEPENDENCIES, signal);
  const record: LayerRecord = { digest: layer.digest, sizeBytes: layer.sizeBytes, lock, base, leftOut, packages };
  await cache.remember("dependencies", set.key, record);
  await cache.prune("dependencies", { countMax: DEPENDENCY_LAYERS_KEPT, bytesMax: DEPENDENCY_LAYERS_KEPT_BYTES });
  return { ...layer, key: set.key, lock, base, leftOut, packages, cached: false };
}

/** Removes what stays out but was installed all the same; tells what the rest asks for of that. */
function leaveOut(set: DependencySet, target: string): { base: string[]; leftOut: string[] } {
  const installed = installedDistributions(target);
  const { names, leftOut } = dependencyClosure(
    set.requirements,
    installed,
    set.leaveOut,
    targetEnvironment(set.pythonVersion),
  );
  for (const distribution of installed) {
    const unneeded = !set.noDeps && !names.has(distribution.name);
    if (set.leaveOut.has(distribution.name) || unneeded) removeDistribution(target, distribution);
  }
  const base = [...leftOut]
    .filter(([name]) => isBase(name))
    .map(([name, specifiers]) => name + specifiers.filter((each) => !each.startsWith("@")).join(","))
    .sort();
  return { base, leftOut: [...leftOut.keys()].sort() };
}

/** Bytecode that is never checked against the source's time; the same sources give the same bytes. */
async function compileBytecode(
  python: string,
  target: string,
  emptyDir: string,
  build: Pick<LayerBuild, "env" | "signal">,
): Promise<void> {
  const env = Object.fromEntries(Object.entries(build.env).filter(([name]) => !name.startsWith("PYTHON")));
  const args = [
    "-s",
    "-S",
    "-m",
    "compileall",
    "-q",
    "-f",
    "-j",
    "0",
    "--invalidation-mode",
    "unchecked-hash",
    "-s",
    target,
    "-p",
    "/",
    target,
  ];
  // A package may ship files for other versions of Python: what does not compile stays as it is.
  const { signal } = build;
  const group = signal !== undefined;
  await runProcess(python, args, { cwd: emptyDir, env: { ...env, PYTHONHASHSEED: "0" }, signal, group });
}

/** The files of a folder as tar entries below `prefix`, sorted; links that lead out of it are left out. */
function* treeEntries(root: string, prefix: string): Generator<TarEntry> {
  const realRoot = realpathSync(root);
  const walk = function* (folder: string): Generator<TarEntry> {
    const names = readdirSync(path.join(root, folder)).sort((a, b) => (a < b ? -1 : 1));
    for (const name of names) {
      const relative = folder === "" ? name : `${folder}/${name}`;
      const file = path.join(root, relative);
      const stat = lstatSync(file);
      if (stat.isDirectory()) yield* walk(relative);
      else if (stat.isSymbolicLink()) {
        const inside = existsSync(file) && realpathSync(file).startsWith(realRoot + path.sep);
        const linkTo = readlinkSync(file);
        if (inside && !path.isAbsolute(linkTo)) yield { name: `${prefix}/${relative}`, linkTo };
      } else if (stat.isFile()) {
        const { size, mode } = statSync(file);
        yield { name: `${prefix}/${relative}`, file, size, executable: (mode & 0o100) !== 0 };
      }
    }
  };
  yield* walk("");
}
