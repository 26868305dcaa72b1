/**
 * The local python3 as a real interpreter path. A version manager's shim costs 50 to 100 ms each time, so the answer
 * is remembered until the shim, a version file or a variable that steers it changes.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { runProcess } from "../lib/run-process.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

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
  readonly cacheDir?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const ASK = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";
const VERSION_FILES = [".python-version", ".tool-versions", "mise.toml", ".mise.toml"];
const VARIABLES = ["PYENV_VERSION", "PYENV_ROOT", "ASDF_PYTHON_VERSION", "MISE_PYTHON_VERSION", "VIRTUAL_ENV"];

/** Throws TOOL_MISSING when there is no Python. */
export async function findPython(options: FindPythonOptions): Promise<Interpreter> {
  const { env } = options;
  const command = options.command ?? "python3";
  const file = onPath(command, env.PATH ?? "");
  if (file === undefined) {
    throw new SvcError("TOOL_MISSING", `There is no ${command} on this machine's PATH.`, {
      help: "Install Python 3.10 or newer.",
    });
  }
  const projectDir = path.resolve(options.projectDir ?? process.cwd());
  const memory =
    options.cacheDir && path.join(options.cacheDir, "interpreters", `${stateKey(file, projectDir, env)}.json`);
  const known = memory === undefined ? undefined : remembered(memory);
  if (known !== undefined) return known;
  const { code, stdout, stderr } = await runProcess(file, ["-I", "-c", ASK], { cwd: projectDir, env });
  const [executable, version] = stdout.trim().split("\n");
  if (code !== 0 || executable === undefined || version === undefined) {
    throw new SvcError(
      "TOOL_MISSING",
      `${file} does not run: ${stderr.trim().split("\n").at(-1) ?? `exit code ${code}`}`,
      {
        help: "Install Python 3.10 or newer, or repair this installation.",
      },
    );
  }
  const interpreter = { executable: executable.trim(), version: version.trim() };
  if (memory !== undefined) await writeFileAtomic(memory, JSON.stringify(interpreter));
  return interpreter;
}

/** The first executable file of that name on PATH; a path is taken as it is. */
export function onPath(command: string, searchPath: string): string | undefined {
  const places = command.includes("/")
    ? [path.resolve(command)]
    : searchPath.split(path.delimiter).map((dir) => path.join(dir, command));
  return places.find((place) => {
    try {
      const stat = statSync(place);
      return stat.isFile() && (stat.mode & 0o111) !== 0;
    } catch {
      return false;
    }
  });
}

function remembered(memory: string): Interpreter | undefined {
  try {
    const interpreter = JSON.parse(readFileSync(memory, "utf8")) as Interpreter;
    return existsSync(interpreter.executable) ? interpreter : undefined;
  } catch {
    return undefined;
  }
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
    if (existsSync(place)) add(`${place} ${readFileSync(place, "utf8")}`);
  }
  return hash.digest("hex").slice(0, 32);
}

function versionFiles(folder: string): string[] {
  const here = VERSION_FILES.map((name) => path.join(folder, name));
  const parent = path.dirname(folder);
  return parent === folder ? here : [...here, ...versionFiles(parent)];
}
