/** Installs one dependency set into a folder, with uv where it is on PATH, else with pip. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { runProcess } from "../lib/run-process.ts";
import { dependencyClosure } from "./dependency-closure.ts";
import { type DependencySet, PLATFORM } from "./dependency-plan.ts";
import { type Interpreter, onPath } from "./interpreter.ts";
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
  readonly signal?: AbortSignal;
}

export type Install = (job: InstallJob) => Promise<void>;

/** What the installer printed when it gave up; credentials are blotted out. */
export class InstallFailed extends Error {
  readonly output: string;

  constructor(output: string) {
    super("The installer failed.");
    this.output = withoutCredentials(output);
  }
}

/** Throws TOOL_MISSING when there is neither uv nor Python. */
export async function chooseInstaller(
  env: Readonly<Record<string, string | undefined>>,
  python: () => Promise<Interpreter>,
): Promise<{ name: "uv" | "pip"; install: Install }> {
  const uv = onPath("uv", env.PATH ?? "");
  if (uv !== undefined) return { name: "uv", install: (job) => installWithUv(uv, job) };
  const { executable } = await python();
  return { name: "pip", install: (job) => installWithPip(executable, job) };
}

async function installWithUv(uv: string, job: InstallJob): Promise<void> {
  const { set, target, scratch } = job;
  const overrides = path.join(scratch, "overrides.txt");
  // A requirement that no platform has: the resolver drops the package and what only it needs.
  await writeFile(overrides, [...set.leaveOut].map((name) => `${name} ; sys_platform == 'never'\n`).join(""));
  const args = ["pip", "install", "--target", target, "--python-platform", `x86_64-${PLATFORM.replace("_x86_64", "")}`];
  args.push("--python-version", set.pythonVersion, "--only-binary", ":all:", "--no-progress", "--overrides", overrides);
  if (set.noDeps) args.push("--no-deps");
  // uv reads the project's own configuration from where it runs.
  await run(uv, [...args, ...set.requirements.map(({ text }) => text)], job, job.projectDir);
}

/**
 * Two steps, because pip cannot leave out a package that another one asks for: resolve without installing, drop what
 * stays out together with what only that needs, then install exactly the rest. So torch is never downloaded.
 */
async function installWithPip(python: string, job: InstallJob): Promise<void> {
  const { set, target, scratch } = job;
  const requirements = set.requirements.map(({ text }) => text);
  const common = [
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-input",
    "--no-compile",
    "--no-warn-conflicts",
  ];
  common.push(
    "--target",
    target,
    "--only-binary",
    ":all:",
    "--implementation",
    "cp",
    "--python-version",
    set.pythonVersion,
  );
  for (const platform of PIP_PLATFORMS) common.push("--platform", platform);
  if (set.noDeps) {
    await run(python, [...common, "--no-deps", ...requirements], job, scratch);
    return;
  }
  const report = path.join(scratch, "report.json");
  const constraints = path.join(scratch, "constraints.txt");
  await writeFile(constraints, set.base.map(({ name, specifier }) => `${name}${specifier}\n`).join(""));
  await run(
    python,
    [...common, "--dry-run", "--report", report, "--constraint", constraints, ...requirements],
    job,
    scratch,
  );
  const pins = neededPins(JSON.parse(await readFile(report, "utf8")) as PipReport, set);
  if (pins.length > 0) await run(python, [...common, "--no-deps", ...pins], job, scratch);
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
    readonly download_info: { readonly url: string };
  }[];
}

function neededPins(report: PipReport, set: DependencySet): string[] {
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
  return report.install
    .filter(({ metadata }) => names.has(normalizedName(metadata.name)))
    .map(({ metadata, is_direct, download_info }) =>
      is_direct ? `${metadata.name} @ ${download_info.url}` : `${metadata.name}==${metadata.version}`,
    )
    .sort();
}

async function run(command: string, args: readonly string[], job: InstallJob, cwd: string): Promise<void> {
  await mkdir(cwd, { recursive: true });
  // A setting such as "always --user" does not go together with a target folder.
  const env = { ...job.env, PIP_USER: "0", PIP_REQUIRE_VIRTUALENV: "0", PYTHONSAFEPATH: "1", NO_COLOR: "1" };
  const { code, stdout, stderr } = await runProcess(command, args, {
    cwd,
    env,
    signal: job.signal,
    onLine: (line) => job.onLine?.(withoutCredentials(line)),
  });
  if (code === 0) return;
  await rm(job.target, { recursive: true, force: true });
  if (/No module named pip\b/.test(stderr)) {
    throw new SvcError("TOOL_MISSING", `${command} has no pip, and uv is not on the PATH.`, {
      help: "Install uv, or pip into this Python: python3 -m ensurepip",
    });
  }
  if (/no such option: --(report|dry-run)/.test(stderr)) {
    throw new SvcError("TOOL_MISSING", `The pip of ${command} is older than 22.2.`, {
      help: "Update it (python3 -m pip install --upgrade pip), or install uv.",
    });
  }
  throw new InstallFailed(`${stdout}\n${stderr}`);
}

export function withoutCredentials(text: string): string {
  return text.replace(/(\w:\/\/)[^/@\s]+@/g, "$1***@");
}
