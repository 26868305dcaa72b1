/** Installs one dependency set into a folder for the workers' platform, without what stays out. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { NoInstaller, PythonInstaller } from "../python/installer.ts";
import { type DependencySet, PLATFORM } from "./dependency-plan.ts";
import type { Interpreter } from "./interpreter.ts";

export interface InstallJob {
  readonly set: DependencySet;
  /** Empty folder that gets the packages. */
  readonly target: string;
  /** Empty folder for the installer's own files. */
  readonly scratch: string;
  readonly projectDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine?: (line: string) => void;
  /** How many of the packages that are known so far are there or begun. */
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

async function installWithPip(pip: PythonInstaller, job: InstallJob): Promise<void> {
  const { set, scratch } = job;
  const options = ["--implementation", "cp", ...PIP_PLATFORMS.flatMap((platform) => ["--platform", platform])];
  const constraints = path.join(scratch, "constraints.txt");
  await writeFile(constraints, set.base.map(({ name, specifier }) => `${name}${specifier}\n`).join(""));
  options.push("--constraint", constraints);
  if (set.noDeps) options.push("--no-deps");
  const requirements = set.requirements.map(({ text }) => text);
  await run(pip, job, scratch, options, requirements);
}

/** Counts packages by what the tool prints: those begun, of those that are known so far. uv names only large ones while it fetches them. */
function counting({ set, onCount }: InstallJob): (line: string) => void {
  let all = set.requirements.length;
  let begun = 0;
  return (line) => {
    const found = FOUND.exec(line);
    if (found !== null) all = Math.max(all, Number(found[1]));
    else if (/^Prepared \d+ packages? in/.test(line)) begun = all;
    else if (BEGUN.test(line)) begun = Math.min(begun + 1, all);
    else return;
    onCount?.(Math.max(begun, 1), all);
  };
}
const FOUND = /^(?:svc: found|Resolved) (\d+) packages?\b/;
const BEGUN = /^\s*(?:(?:Downloading|Using cached|Processing) \S+\.whl(?: |$)|Downloading \S+ \([\d.]+\w+\)$)/;

const PIP_PLATFORMS = [
  PLATFORM,
  ...Array.from({ length: 23 }, (_, i) => `manylinux_2_${27 - i}_x86_64`),
  "manylinux2014_x86_64",
  "manylinux2010_x86_64",
  "manylinux1_x86_64",
  "linux_x86_64",
];

function run(
  installer: PythonInstaller,
  job: InstallJob,
  cwd: string,
  options: readonly string[],
  requirements: readonly string[],
): Promise<void> {
  const { set, target, signal } = job;
  const count = counting(job);
  const ownVersions = set.base.map(({ name, specifier }) => [name, specifier] as const);
  // What an installer that is stopped leaves in its temporary folder goes with the build's own.
  const env = { ...job.env, TMPDIR: job.scratch };
  return installer.install({
    target,
    pythonVersion: set.pythonVersion,
    options,
    requirements,
    cwd,
    env,
    leaveOut: {
      ...Object.fromEntries([...set.leaveOut].map((name) => [name, ""])),
      ...Object.fromEntries(ownVersions),
    },
    onLine: (line) => {
      count(line);
      job.onLine?.(line);
    },
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
