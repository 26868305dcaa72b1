/**
 * The local python3 as a real interpreter path. A version manager's shim costs 50 to 100 ms each time, so the answer
 * is remembered until the shim, a version file or a variable that steers it changes.
 */
import { createHash } from "node:crypto";
import { existsSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { onPath } from "../lib/on-path.ts";
import { plainTextIfAny } from "../lib/plain-text.ts";
import { askPython } from "../python/version.ts";
import type { LayerCache } from "./layer-cache.ts";

export interface Interpreter {
  /** sys.executable */
  readonly executable: string;
  /** "3.11" */
  readonly version: string;
}

export interface FindPythonOptions {
  /** A command or a path instead of python3. */
  readonly command?: string;
  /** Where shims look for version files. */
  readonly projectDir?: string;
  /** Without one nothing is remembered. */
  readonly cache?: LayerCache;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const VERSION_FILES = [".python-version", ".tool-versions", "mise.toml", ".mise.toml"];
const VARIABLES = ["PYENV_VERSION", "PYENV_ROOT", "ASDF_PYTHON_VERSION", "MISE_PYTHON_VERSION", "VIRTUAL_ENV"];

/** Throws TOOL_MISSING when there is no Python. */
export async function findPython(options: FindPythonOptions): Promise<Interpreter> {
  const { env } = options;
  const command = options.command ?? "python3";
  const file = onPath(command, env.PATH ?? "");
  if (file === undefined) {
    if (options.command !== undefined) {
      throw new SvcError("TOOL_MISSING", `SVC_PYTHON names ${command}, and there is no such program.`, {
        help: "Set it to the path of a Python 3.10 or newer, or remove it: then python3 of the PATH is used.",
      });
    }
    throw new SvcError("TOOL_MISSING", `There is no ${command} on this machine's PATH.`, {
      help: "Install Python 3.10 or newer.",
    });
  }
  const projectDir = path.resolve(options.projectDir ?? process.cwd());
  const { cache } = options;
  const key = cache === undefined ? "" : stateKey(file, projectDir, env);
  const known = cache?.record<Interpreter>("interpreters", key);
  if (known !== undefined && existsSync(known.executable)) return known;
  const interpreter = await askPython(file, { cwd: projectDir, env });
  if ("problem" in interpreter) {
    throw new SvcError("TOOL_MISSING", `${file} does not run: ${interpreter.problem}`, {
      help: "Install Python 3.10 or newer, or repair this installation.",
    });
  }
  await cache?.remember("interpreters", key, interpreter);
  return interpreter;
}

/** Changes with everything that decides what the command runs. */
function stateKey(file: string, projectDir: string, env: Readonly<Record<string, string | undefined>>): string {
  const hash = createHash("sha256");
  const add = (text: string) => hash.update(`${text}\0`);
  const real = realpathSync(file);
  const stat = statSync(real);
  add(`${file} ${real} ${stat.mtimeMs} ${stat.size} ${stat.ino}`);
  for (const name of VARIABLES) add(env[name] ?? "");
  const globals = [
    path.join(env.PYENV_ROOT ?? path.join(homedir(), ".pyenv"), "version"),
    path.join(homedir(), ".tool-versions"),
  ];
  for (const place of [...versionFiles(projectDir), ...globals]) {
    const text = plainTextIfAny(place);
    if (text !== undefined) add(`${place} ${text}`);
  }
  return hash.digest("hex").slice(0, 32);
}

function versionFiles(folder: string): string[] {
  const here = VERSION_FILES.map((name) => path.join(folder, name));
  const parent = path.dirname(folder);
  return parent === folder ? here : [...here, ...versionFiles(parent)];
}
