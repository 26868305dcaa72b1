/**
 * What a base image has and a plain machine lacks (torch, numpy, …): shared environments below `<dir>/<key>`, each
 * installed once from the package index before the endpoint that asked for it becomes ready.
 */
import { createHash } from "node:crypto";
import { access, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { isBaseRequirement, largeOnes } from "../domain/base-requirement.ts";
import { SvcError } from "../domain/errors.ts";
import { SYNCS_AT_ONCE } from "../domain/limits.ts";
import { makeDurableFolder, syncFolder } from "../lib/durable-folder.ts";
import { onPath } from "../lib/on-path.ts";
import { runProcess } from "../lib/run-process.ts";
import { syncTree } from "../lib/sync-tree.ts";
import { installComplaint, installFailure, installStep } from "../python/install-output.ts";
import { InstallFailed, NoInstaller, PythonInstaller } from "../python/installer.ts";
import { makeInstallerHome } from "../python/installer-home.ts";
import type { ConfinedInstaller } from "./confined-installer.ts";
import type { Interpreter } from "./interpreter.ts";
import { FolderUse } from "./unused-folders.ts";

const COMPLAINT_LINES_MAX = 5;

/** In place of an index: uv knows one with builds for the CPU alone. */
export const KNOWN_TO_UV = "uv";

export class BaseLayers {
  readonly #dir: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #confined: ConfinedInstaller | undefined;
  readonly #cpuWheels: string | undefined;
  /** Builds for the CPU are wanted, from where uv knows them. */
  readonly #asksUv: boolean;
  readonly #hasUv: boolean;
  readonly #installing = new Map<string, Promise<string>>();
  readonly #use: FolderUse;

  /**
   * `env` has PATH and the user's settings of pip and uv. Without `confined` the installer may do what the platform may.
   * `cpuWheels`: where builds for the CPU alone are: an index or a folder, beside what the settings say, or KNOWN_TO_UV.
   */
  constructor(
    dir: string,
    env: Readonly<Record<string, string | undefined>>,
    confined?: ConfinedInstaller,
    cpuWheels?: string,
  ) {
    this.#dir = dir;
    this.#env = env;
    this.#confined = confined;
    this.#cpuWheels = cpuWheels === KNOWN_TO_UV ? undefined : cpuWheels;
    this.#hasUv = onPath("uv", env.PATH ?? "") !== undefined;
    // Who has set it means something else, or the same.
    this.#asksUv = cpuWheels === KNOWN_TO_UV && env.UV_TORCH_BACKEND === undefined;
    this.#use = new FolderUse(dir);
  }

  path(requirements: readonly string[], interpreter: Interpreter): string {
    const asked: unknown[] = [[...requirements].sort(), interpreter.version];
    if (this.#cpuWheels !== undefined) asked.push(this.#cpuWheels);
    if (this.#isCpuByUv(requirements)) asked.push(KNOWN_TO_UV);
    const text = JSON.stringify(asked);
    return path.join(this.#dir, createHash("sha256").update(text).digest("hex").slice(0, 32));
  }

  #isCpuByUv(requirements: readonly string[]): boolean {
    return this.#asksUv && this.#hasUv && largeOnes(requirements).length > 0;
  }

  /** Resolves the folder to put on sys.path. `report` gets lines such as "installing numpy 2.1.0 (16.9 MB)". */
  ensure(requirements: readonly string[], interpreter: Interpreter, report: (line: string) => void): Promise<string> {
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

  async #ensure(
    target: string,
    requirements: readonly string[],
    interpreter: Interpreter,
    report: (line: string) => void,
  ) {
    const there = await access(target).then(
      () => true,
      () => false,
    );
    if (there) return target;
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
    const byUv = this.#isCpuByUv(requirements);
    const large = this.#cpuWheels === undefined && !byUv ? largeOnes(requirements) : [];
    const size = `: several GB with the GPU libraries of ${large.join(", ")}, once for this machine`;
    const needless = this.#asksUv ? "; with uv on the platform's PATH they are left out" : "";
    const some = this.#cpuWheels === undefined ? "" : ", for the CPU where there is such a build";
    const cpu = byUv ? ", builds for the CPU" : some;
    report(`installing ${requirements.join(", ")}${large.length > 0 ? size + needless : cpu}`);
    await makeDurableFolder(this.#dir);
    const temporary = await mkdtemp(path.join(this.#dir, ".install-"));
    try {
      const packages = path.join(temporary, "packages");
      await mkdir(packages);
      // Those who wait are shown the latest line only.
      const step = large.length > 0 ? (line: string) => report(`${line}; several GB in all`) : report;
      await this.#install(temporary, packages, requirements, interpreter, step);
      // It came by the network: after a power cut it is whole, or not there.
      await syncTree(packages, SYNCS_AT_ONCE);
      await rename(packages, target);
      await syncFolder(this.#dir);
    } catch (error) {
      throw installError(error, requirements, byUv);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    return target;
  }

  async #install(
    folder: string,
    target: string,
    requirements: readonly string[],
    interpreter: Interpreter,
    report: (line: string) => void,
  ): Promise<void> {
    const home = path.join(folder, "home");
    const { env, named } = await makeInstallerHome(home, this.#env);
    const onMissing = (what: string) =>
      report(`the installer is kept apart less than usual: this machine lacks ${what}`);
    const cpuFolder = this.#cpuWheels !== undefined && path.isAbsolute(this.#cpuWheels) ? [this.#cpuWheels] : [];
    const room = { folder, home, named: [...named, ...cpuFolder], userHome: this.#env.HOME ?? "/", onMissing };
    const run: typeof runProcess = (command, args, options = {}) =>
      this.#confined?.run(room, interpreter.path, command, args, options) ?? runProcess(command, args, options);
    await new PythonInstaller(env, [interpreter.path], run).install({
      target,
      pythonVersion: interpreter.version,
      requirements,
      // "1.0+cpu" is above "1.0": where both are, it is taken.
      options:
        this.#cpuWheels === undefined
          ? []
          : [cpuFolder.length > 0 ? "--find-links" : "--extra-index-url", this.#cpuWheels],
      cwd: home,
      env: this.#isCpuByUv(requirements) ? { ...env, UV_TORCH_BACKEND: "cpu" } : env,
      onLine: (line) => {
        const step = installStep(line);
        if (step !== undefined) report(step);
      },
    });
    report("preparing bytecode");
    await run(interpreter.path, ["-I", "-m", "compileall", "-q", "-j", "0", target], { cwd: home, env });
  }
}

/** The installer's words become the reason why the endpoint cannot run. */
function installError(error: unknown, requirements: readonly string[], byUv: boolean): unknown {
  if (error instanceof NoInstaller) {
    return new SvcError("DEPENDENCIES_FAILED", "Neither uv nor a Python with pip was found to install packages.", {
      help: "Install uv, or pip for python3.",
    });
  }
  if (!(error instanceof InstallFailed)) return error;
  const asked = requirements.join(", ");
  if (installFailure(error.output) === "network" && byUv) {
    return new SvcError(
      "DEPENDENCIES_FAILED",
      `${asked} could not be installed: the index of builds for the CPU, which uv knows, or the package index cannot be reached.`,
      {
        help: "Check the network; installing is tried again every few seconds. Or set SVC_CPU_WHEELS to an index or a folder that has such builds, or to off for those with GPU libraries.",
      },
    );
  }
  if (installFailure(error.output) === "network") {
    return new SvcError(
      "DEPENDENCIES_FAILED",
      `${asked} could not be installed: the package index cannot be reached.`,
      {
        help: "Check the network; installing is tried again every few seconds.",
      },
    );
  }
  const said = installComplaint(error.output, COMPLAINT_LINES_MAX).join("; ");
  return new SvcError("DEPENDENCIES_FAILED", `${asked} could not be installed: ${said}.`, {
    help: "Correct the requirement and deploy again.",
  });
}
