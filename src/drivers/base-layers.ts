/**
 * What a base image has and a plain machine lacks (torch, numpy, …): shared environments below `<dir>/<key>`, each
 * installed once from the package index before the endpoint that asked for it becomes ready.
 */
import { createHash } from "node:crypto";
import { access, mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { isBaseRequirement } from "../domain/base-requirement.ts";
import { SvcError } from "../domain/errors.ts";
import { SYNCS_AT_ONCE } from "../domain/limits.ts";
import { makeDurableFolder, syncFolder } from "../lib/durable-folder.ts";
import { installComplaint, installFailure, installStep } from "../lib/install-output.ts";
import { inInstallerHome } from "../lib/installer-home.ts";
import { InstallFailed, NoInstaller, PythonInstaller } from "../lib/python-installer.ts";
import { runProcess } from "../lib/run-process.ts";
import { syncTree } from "../lib/sync-tree.ts";
import type { Interpreter } from "./interpreter.ts";
import { FolderUse } from "./unused-folders.ts";

const COMPLAINT_LINES_MAX = 5;

export class BaseLayers {
  readonly #dir: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #installing = new Map<string, Promise<string>>();
  readonly #use: FolderUse;

  /** `env` has PATH and the user's settings of pip and uv. */
  constructor(dir: string, env: Readonly<Record<string, string | undefined>>) {
    this.#dir = dir;
    this.#env = env;
    this.#use = new FolderUse(dir);
  }

  path(requirements: readonly string[], interpreter: Interpreter): string {
    const text = JSON.stringify([[...requirements].sort(), interpreter.version]);
    return path.join(this.#dir, createHash("sha256").update(text).digest("hex").slice(0, 32));
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
    report(`installing ${requirements.join(", ")}`);
    await makeDurableFolder(this.#dir);
    const temporary = await mkdtemp(path.join(this.#dir, ".install-"));
    try {
      await inInstallerHome(this.#env, (home, env) =>
        new PythonInstaller(env, [interpreter.path]).install({
          target: temporary,
          pythonVersion: interpreter.version,
          requirements,
          cwd: home,
          env,
          onLine: (line) => {
            const step = installStep(line);
            if (step !== undefined) report(step);
          },
        }),
      );
      report("preparing bytecode");
      await runProcess(interpreter.path, ["-I", "-m", "compileall", "-q", "-j", "0", temporary]);
      // It came by the network: after a power cut it is whole, or not there.
      await syncTree(temporary, SYNCS_AT_ONCE);
      await rename(temporary, target);
      await syncFolder(this.#dir);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      throw installError(error, requirements);
    }
    return target;
  }
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
        help: "Check the network; installing is tried again every few seconds.",
      },
    );
  }
  const said = installComplaint(error.output, COMPLAINT_LINES_MAX).join("; ");
  return new SvcError("DEPENDENCIES_FAILED", `${asked} could not be installed: ${said}.`, {
    help: "Correct the requirement and deploy again.",
  });
}
