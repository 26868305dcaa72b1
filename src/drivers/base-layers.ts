/**
 * What a base image has and a plain machine lacks (torch, numpy, …): shared environments below `<dir>/<key>`, each
 * installed once from the package index before the endpoint that asked for it becomes ready.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { isBaseRequirement, largeOnes } from "../domain/base-requirement.ts";
import { SvcError } from "../domain/errors.ts";
import { SYNCS_AT_ONCE } from "../domain/limits.ts";
import { makeDurableFolder, syncFolder } from "../lib/durable-folder.ts";
import { onPath } from "../lib/on-path.ts";
import { runProcess } from "../lib/run-process.ts";
import { syncTree } from "../lib/sync-tree.ts";
import { installComplaint, installFailure, installStep, networkComplaint } from "../python/install-output.ts";
import { InstallFailed, NoInstaller, PythonInstaller } from "../python/installer.ts";
import { makeInstallerHome } from "../python/installer-home.ts";
import { uvSettings } from "../python/pip-settings.ts";
import type { ConfinedInstaller } from "./confined-installer.ts";
import type { Interpreter } from "./interpreter.ts";
import { FolderUse } from "./unused-folders.ts";

const COMPLAINT_LINES_MAX = 5;

/** In place of an index: uv knows one with builds for the CPU alone. */
export const KNOWN_TO_UV = "uv";
/** What is brought where no uv is on the PATH: from 0.8.13 on it knows all packages that go with torch. */
const UV = "uv>=0.8.13,<1";

type Env = Readonly<Record<string, string | undefined>>;
type Report = (line: string) => void;

/** Where an installation happens: a folder that becomes the layer, and how a tool is run beside it. */
interface Workplace {
  readonly packages: string;
  readonly home: string;
  readonly env: Env;
  readonly run: typeof runProcess;
}

/** No build for the CPU can be had from where uv knows them. */
class NoCpuBuilds extends Error {}

export class BaseLayers {
  readonly #dir: string;
  readonly #env: Env;
  readonly #confined: ConfinedInstaller | undefined;
  readonly #cpuWheels: string | undefined;
  /** Builds for the CPU are wanted, from where uv knows them. */
  readonly #asksUv: boolean;
  readonly #hasUv: boolean;
  #bringing: Promise<string> | undefined;
  readonly #installing = new Map<string, Promise<string>>();
  readonly #use: FolderUse;

  /**
   * `env` has PATH and the user's settings of pip and uv. Without `confined` the installer may do what the platform may.
   * `cpuWheels`: where builds for the CPU alone are: an index or a folder, beside what the settings say, or KNOWN_TO_UV.
   */
  constructor(dir: string, env: Env, confined?: ConfinedInstaller, cpuWheels?: string) {
    this.#dir = dir;
    this.#env = env;
    this.#confined = confined;
    this.#cpuWheels = cpuWheels === KNOWN_TO_UV ? undefined : cpuWheels;
    this.#hasUv = onPath("uv", env.PATH ?? "") !== undefined;
    // Who has set it means something else, or the same.
    this.#asksUv = cpuWheels === KNOWN_TO_UV && env.UV_TORCH_BACKEND === undefined;
    this.#use = new FolderUse(dir);
  }

  /** Where they are, or come. */
  path(requirements: readonly string[], interpreter: Interpreter): string {
    const usual = this.#folder([[...requirements].sort(), interpreter.version, this.#cpuWheels]);
    if (!this.#asksUv || largeOnes(requirements).length === 0) return usual;
    const cpu = this.#folder([[...requirements].sort(), interpreter.version, KNOWN_TO_UV]);
    // What came with GPU libraries is not fetched once more without them.
    return existsSync(usual) && !existsSync(cpu) ? usual : cpu;
  }

  #folder(asked: readonly unknown[]): string {
    const text = JSON.stringify(asked.filter((one) => one !== undefined));
    return path.join(this.#dir, createHash("sha256").update(text).digest("hex").slice(0, 32));
  }

  /** Resolves the folder to put on sys.path. `report` gets lines such as "installing numpy 2.1.0 (16.9 MB)". */
  ensure(requirements: readonly string[], interpreter: Interpreter, report: Report): Promise<string> {
    const target = this.path(requirements, interpreter);
    this.#use.note(path.basename(target));
    let work = this.#installing.get(target);
    if (work === undefined) {
      work = this.#ensure(target, requirements, interpreter, report).finally(() => this.#installing.delete(target));
      this.#installing.set(target, work);
    }
    return work;
  }

  /** Removes the folders that are not among `keep` and nobody asked for since `before`. */
  async removeUnused(keep: readonly string[], before: number): Promise<void> {
    await this.#use.removeUnused(new Set(keep.map((folder) => path.basename(folder))), before);
  }

  async #ensure(target: string, requirements: readonly string[], interpreter: Interpreter, report: Report) {
    if (existsSync(target)) return target;
    // A deploy is checked too; a build may be older than the check.
    const strange = requirements.filter((text) => !isBaseRequirement(text));
    if (strange.length > 0) {
      throw new SvcError(
        "DEPENDENCIES_FAILED",
        `The platform does not install ${JSON.stringify(strange.join(", "))}.`,
        {
          help: "Deploy again: other packages than those of the base travel with the build.",
        },
      );
    }
    try {
      const usual = this.#folder([[...requirements].sort(), interpreter.version, this.#cpuWheels]);
      if (target === usual) return await this.#installUsual(usual, requirements, interpreter, report);
      try {
        return await this.#installByUv(target, requirements, interpreter, report);
      } catch (error) {
        if (!(error instanceof NoCpuBuilds)) throw error;
        this.#use.note(path.basename(usual));
        return await this.#installUsual(usual, requirements, interpreter, report, error.message);
      }
    } catch (error) {
      throw installError(error, requirements);
    }
  }

  /** `noCpuBuilds`: why builds for the CPU, which were wanted, cannot be had. */
  async #installUsual(
    target: string,
    requirements: readonly string[],
    interpreter: Interpreter,
    report: Report,
    noCpuBuilds?: string,
  ): Promise<string> {
    const cpuWheels = this.#cpuWheels;
    const large = cpuWheels === undefined ? largeOnes(requirements) : [];
    const size = `: several GB with the GPU libraries of ${large.join(", ")}, once for this machine`;
    const why = noCpuBuilds === undefined ? "" : `; ${noCpuBuilds}: SVC_CPU_WHEELS says where builds without them are`;
    const some = cpuWheels === undefined ? "" : ", for the CPU where there is such a build";
    report(`installing ${requirements.join(", ")}${large.length > 0 ? size + why : some}`);
    // Those who wait are shown the latest line only.
    const step = large.length > 0 ? (line: string) => report(`${line}; several GB in all`) : report;
    const isFolder = cpuWheels !== undefined && path.isAbsolute(cpuWheels);
    // "1.0+cpu" is above "1.0": where both are, it is taken.
    const options = cpuWheels === undefined ? [] : [isFolder ? "--find-links" : "--extra-index-url", cpuWheels];
    return await this.#make(target, interpreter, isFolder ? [cpuWheels] : [], step, async (workplace) => {
      await install(workplace, requirements, interpreter, step, options);
      await compile(workplace, interpreter, step);
    });
  }

  /** Throws NoCpuBuilds. */
  async #installByUv(target: string, requirements: readonly string[], interpreter: Interpreter, report: Report) {
    const uv = this.#hasUv ? undefined : await this.#bringUv(interpreter, report);
    report(`installing ${requirements.join(", ")}, builds for the CPU`);
    return await this.#make(target, interpreter, [], report, async (workplace) => {
      let { env } = workplace;
      if (uv !== undefined) {
        const listed = await workplace.run(interpreter.path, ["-m", "pip", "config", "list"], { env });
        env = { ...env, ...uvSettings(listed.stdout, env), PATH: `${path.join(uv, "bin")}:${env.PATH ?? ""}` };
      }
      try {
        await install({ ...workplace, env: { ...env, UV_TORCH_BACKEND: "cpu" } }, requirements, interpreter, report);
      } catch (error) {
        if (!(error instanceof InstallFailed)) throw error;
        // What a uv of ours cannot do, the pip of this machine may.
        if (installFailure(error.output) !== "network" && uv === undefined) throw error;
        throw new NoCpuBuilds(`builds for the CPU could not be had from where uv knows them (${saidBy(error, 1)})`);
      }
      await compile(workplace, interpreter, report);
    });
  }

  /** Resolves a folder with `bin/uv`, which lies beside the layers until no installation asks for it. */
  #bringUv(interpreter: Interpreter, report: Report): Promise<string> {
    const target = this.#folder([UV]);
    this.#use.note(path.basename(target));
    if (existsSync(target)) return Promise.resolve(target);
    report("fetching uv, which knows builds for the CPU");
    this.#bringing ??= this.#make(target, interpreter, [], report, (workplace) =>
      install(workplace, [UV], interpreter, report),
    )
      .catch((error: unknown) => {
        if (!(error instanceof InstallFailed)) throw error;
        throw new NoCpuBuilds(`uv, which knows builds for the CPU, could not be fetched (${saidBy(error, 1)})`);
      })
      .finally(() => {
        this.#bringing = undefined;
      });
    return this.#bringing;
  }

  /** Makes the folder `target`, whole or not at all. `named`: files and folders that the tools read besides what the settings name. */
  async #make(
    target: string,
    interpreter: Interpreter,
    alsoNamed: readonly string[],
    report: Report,
    fill: (workplace: Workplace) => Promise<void>,
  ): Promise<string> {
    await makeDurableFolder(this.#dir);
    const folder = await mkdtemp(path.join(this.#dir, ".install-"));
    try {
      const packages = path.join(folder, "packages");
      await mkdir(packages);
      const home = path.join(folder, "home");
      const { env, named } = await makeInstallerHome(home, this.#env);
      const onMissing = (what: string) =>
        report(`the installer is kept apart less than usual: this machine lacks ${what}`);
      const room = { folder, home, named: [...named, ...alsoNamed], userHome: this.#env.HOME ?? "/", onMissing };
      const run: typeof runProcess = (command, args, options = {}) =>
        this.#confined?.run(room, interpreter.base, command, args, options) ?? runProcess(command, args, options);
      await fill({ packages, home, env, run });
      // It came by the network: after a power cut it is whole, or not there.
      await syncTree(packages, SYNCS_AT_ONCE);
      await rename(packages, target);
      await syncFolder(this.#dir);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    return target;
  }
}

async function install(
  { packages, home, env, run }: Workplace,
  requirements: readonly string[],
  interpreter: Interpreter,
  report: Report,
  options: readonly string[] = [],
): Promise<void> {
  await new PythonInstaller(env, [interpreter.path], run).install({
    target: packages,
    pythonVersion: interpreter.version,
    requirements,
    options,
    cwd: home,
    env,
    onLine: (line) => {
      const step = installStep(line);
      if (step !== undefined) report(step);
    },
  });
}

async function compile({ packages, home, env, run }: Workplace, { base: python }: Interpreter, report: Report) {
  report("preparing bytecode");
  await run(python, ["-I", "-m", "compileall", "-q", "-j", "0", packages], { cwd: home, env });
}

function saidBy({ output }: InstallFailed, linesMax: number): string {
  if (installFailure(output) === "network") return "the network does not reach there";
  return installComplaint(output, linesMax).join("; ");
}

/** The installer's words become the reason why the endpoint cannot run. */
function installError(error: unknown, requirements: readonly string[]): unknown {
  if (error instanceof NoInstaller) {
    return new SvcError("DEPENDENCIES_FAILED", "Neither uv nor a Python with pip was found to install packages.", {
      help: "Install uv, or pip for python3.",
    });
  }
  if (!(error instanceof InstallFailed)) return error;
  const asked = requirements.join(", ");
  if (installFailure(error.output) === "network") {
    return new SvcError(
      "DEPENDENCIES_FAILED",
      `${asked} could not be installed: the package index cannot be reached.`,
      {
        help: `Check the network; installing is tried again every few seconds. The installer said: ${networkComplaint(error.output)}`,
      },
    );
  }
  const said = saidBy(error, COMPLAINT_LINES_MAX);
  return new SvcError("DEPENDENCIES_FAILED", `${asked} could not be installed: ${said}.`, {
    help: "Correct the requirement and deploy again.",
  });
}
