/** Installs one dependency set into a folder for the workers' platform, without what stays out. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { InstallFailed, NoInstaller, PythonInstaller } from "../python/installer.ts";
import { dependencyClosure } from "./dependency-closure.ts";
import { type DependencySet, PLATFORM } from "./dependency-plan.ts";
import type { Interpreter } from "./interpreter.ts";
import { targetEnvironment } from "./marker.ts";
import { normalizedName } from "./requirement.ts";

export interface InstallJob {
  readonly set: DependencySet;
  /** Empty folder that gets the packages. */
  readonly target: string;
  /** Empty folder for the installer's own files. */
  readonly scratch: string;
  readonly projectDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine?: (line: string) => void;
  /** How many of the packages are there or begun, where the tool says so. */
  readonly onCount?: (begun: number, all: number) => void;
  readonly signal?: AbortSignal;
}

export type Install = (job: InstallJob) => Promise<void>;

/** The install function throws InstallFailed with what the installer printed, or TOOL_MISSING when there is none. */
export async function chooseInstaller(
  env: Readonly<Record<string, string | undefined>>,
  python: () => Promise<Interpreter>,
): Promise<{ name: "uv" | "pip"; install: Install }> {
  const { executable } = await python();
  const installer = new PythonInstaller(env, [executable]);
  const into = installer.tool === "uv" ? installWithUv : installWithPip;
  const install = async (job: InstallJob) => {
    try {
      await into(installer, job);
    } catch (error) {
      throw error instanceof NoInstaller ? toolMissing(error, executable) : error;
    }
  };
  return { name: installer.tool, install };
}

async function installWithUv(uv: PythonInstaller, job: InstallJob): Promise<void> {
  const { set, scratch } = job;
  const overrides = path.join(scratch, "overrides.txt");
  // A requirement that no platform has: the resolver drops the package and what only it needs.
  await writeFile(overrides, [...set.leaveOut].map((name) => `${name} ; sys_platform == 'never'\n`).join(""));
  const args = ["--python-platform", `x86_64-${PLATFORM.replace("_x86_64", "")}`, "--overrides", overrides];
  if (set.noDeps) args.push("--no-deps");
  await run(
    uv,
    job,
    job.projectDir,
    args,
    set.requirements.map(({ text }) => text),
  );
}

/**
 * Two steps, because pip cannot leave out a package that another one asks for: resolve without installing, drop what
 * stays out together with what only that needs, then install exactly the rest, from where they were found: nothing is looked up twice.
 */
async function installWithPip(pip: PythonInstaller, job: InstallJob): Promise<void> {
  const { set, scratch } = job;
  const requirements = set.requirements.map(({ text }) => text);
  const common = ["--implementation", "cp", ...PIP_PLATFORMS.flatMap((platform) => ["--platform", platform])];
  if (set.noDeps) return run(pip, job, scratch, [...common, "--no-deps"], requirements);
  const report = path.join(scratch, "report.json");
  const constraints = path.join(scratch, "constraints.txt");
  await writeFile(constraints, set.base.map(({ name, specifier }) => `${name}${specifier}\n`).join(""));
  const resolve = ["--dry-run", "--report", report, "--constraint", constraints];
  await run(pip, job, scratch, [...common, ...resolve], requirements);
  const needed = neededPackages(JSON.parse(await readFile(report, "utf8")) as PipReport, set);
  if (needed.length === 0) return;
  const pinned = (places: readonly string[]) =>
    run(pip, counting(job, needed.length), scratch, [...common, "--no-deps"], places);
  try {
    await pinned(needed.map(placeOf).sort());
  } catch (error) {
    // What was found may be refused by its address alone, where an index asks for credentials.
    if (!(error instanceof InstallFailed) || job.signal?.aborted) throw error;
    await pinned(needed.map(pinOf).sort());
  }
}

/** Each package is begun with a line of its own. */
function counting(job: InstallJob, all: number): InstallJob {
  let begun = 0;
  const onLine = (line: string) => {
    if (/^(Collecting|Processing) /.test(line)) job.onCount?.(Math.min(++begun, all), all);
    job.onLine?.(line);
  };
  return { ...job, onLine };
}

const PIP_PLATFORMS = [
  PLATFORM,
  ...Array.from({ length: 23 }, (_, i) => `manylinux_2_${27 - i}_x86_64`),
  "manylinux2014_x86_64",
  "manylinux2010_x86_64",
  "manylinux1_x86_64",
  "linux_x86_64",
];

interface PipReport {
  readonly install: readonly {
    readonly metadata: { readonly name: string; readonly version: string; readonly requires_dist?: readonly string[] };
    readonly is_direct: boolean;
    readonly download_info: {
      readonly url: string;
      readonly archive_info?: { readonly hashes?: Readonly<Record<string, string>> };
    };
  }[];
}
type Package = PipReport["install"][number];

function neededPackages(report: PipReport, set: DependencySet): Package[] {
  const distributions = report.install.map(({ metadata }) => ({
    name: normalizedName(metadata.name),
    version: metadata.version,
    requires: metadata.requires_dist ?? [],
  }));
  const { names } = dependencyClosure(
    set.requirements,
    distributions,
    set.leaveOut,
    targetEnvironment(set.pythonVersion),
  );
  return report.install.filter(({ metadata }) => names.has(normalizedName(metadata.name)));
}

/** The very file that was found. */
function placeOf({ metadata, download_info: { url, archive_info } }: Package): string {
  const sha256 = archive_info?.hashes?.sha256;
  return `${metadata.name} @ ${url}${sha256 === undefined ? "" : `#sha256=${sha256}`}`;
}

function pinOf(one: Package): string {
  return one.is_direct ? placeOf(one) : `${one.metadata.name}==${one.metadata.version}`;
}

function run(
  installer: PythonInstaller,
  job: InstallJob,
  cwd: string,
  options: readonly string[],
  requirements: readonly string[],
): Promise<void> {
  const { set, target, onLine, signal } = job;
  // What an installer that is stopped leaves in its temporary folder goes with the build's own.
  const env = { ...job.env, TMPDIR: job.scratch };
  return installer.install({
    target,
    pythonVersion: set.pythonVersion,
    options,
    requirements,
    cwd,
    env,
    onLine,
    signal,
  });
}

function toolMissing({ pipTooOld }: NoInstaller, python: string): SvcError {
  if (pipTooOld) {
    return new SvcError("TOOL_MISSING", `The pip of ${python} is older than 22.2.`, {
      help: "Update it (python3 -m pip install --upgrade pip), or install uv.",
    });
  }
  return new SvcError("TOOL_MISSING", `${python} has no pip, and uv is not on the PATH.`, {
    help: "Install uv, or pip into this Python: python3 -m ensurepip",
  });
}
