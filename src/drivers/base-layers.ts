/**
 * What a base image has and a plain machine lacks (torch, numpy, …): shared environments below `<dir>/<key>`, each
 * installed once from the package index before the endpoint that asked for it becomes ready.
 */
import { createHash } from "node:crypto";
import { access, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { runProcess } from "../lib/run-process.ts";
import type { Interpreter } from "./interpreter.ts";

export class BaseLayers {
  readonly #dir: string;
  readonly #installing = new Map<string, Promise<string>>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  path(requirements: readonly string[], interpreter: Interpreter): string {
    const text = JSON.stringify([[...requirements].sort(), interpreter.version]);
    return path.join(this.#dir, createHash("sha256").update(text).digest("hex").slice(0, 32));
  }

  /** Resolves the folder to put on sys.path. `report` gets the installer's own progress. */
  ensure(requirements: readonly string[], interpreter: Interpreter, report: (line: string) => void): Promise<string> {
    const target = this.path(requirements, interpreter);
    let work = this.#installing.get(target);
    if (work === undefined) {
      work = this.#ensure(target, requirements, interpreter, report).finally(() => this.#installing.delete(target));
      this.#installing.set(target, work);
    }
    return work;
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
    report(`installing ${requirements.join(", ")}`);
    await mkdir(this.#dir, { recursive: true });
    const temporary = await mkdtemp(path.join(this.#dir, ".install-"));
    try {
      await install(temporary, requirements, interpreter, report);
      await runProcess(interpreter.path, ["-I", "-m", "compileall", "-q", "-j", "0", temporary]);
      await rename(temporary, target);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      throw error;
    }
    return target;
  }
}

async function install(
  dir: string,
  requirements: readonly string[],
  interpreter: Interpreter,
  report: (line: string) => void,
) {
  const common = ["--target", dir, "--only-binary", ":all:", ...requirements];
  const tools: [string, string[]][] = [
    ["uv", ["pip", "install", "--python", interpreter.path, ...common]],
    [
      interpreter.path,
      [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-compile",
        "--root-user-action=ignore",
        "--progress-bar=off",
        ...common,
      ],
    ],
    // A system interpreter may come without pip; another one can install for it.
    [
      "python3",
      [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-compile",
        "--python-version",
        interpreter.version,
        ...common,
      ],
    ],
  ];
  let problem = "";
  for (const [command, args] of tools) {
    const result = await runProcess(command, args, { onLine: report }).catch(() => undefined);
    if (result?.code === 0) return;
    if (result === undefined || result.stderr.includes("No module named pip")) continue;
    problem = result.stderr.trim().split("\n").slice(-5).join("\n");
    break;
  }
  throw new SvcError(
    "DEPENDENCIES_FAILED",
    problem === ""
      ? "No installer for Python packages was found."
      : `Could not install ${requirements.join(", ")}: ${problem}`,
    {
      help:
        problem === ""
          ? "Install uv, or pip for python3."
          : "Check the requirement and the network, then deploy again.",
    },
  );
}
