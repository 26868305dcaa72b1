/** Finds the Python interpreter for a version once; a version manager's shim costs 50–80 ms at every start. */
import { SvcError } from "../domain/errors.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { askPython } from "../python/version.ts";

export interface Interpreter {
  /** `sys.executable`: the real binary. */
  readonly path: string;
  /** What workers run: where `path` is in a virtual environment, the interpreter that this was made with, which outlives it. */
  readonly base: string;
  /** "3.11" */
  readonly version: string;
}

/** Or why it does not answer. */
async function ask(command: string): Promise<Interpreter | string> {
  const answer = await askPython(command).catch(({ code, message }: NodeJS.ErrnoException) => ({
    problem: code === "ENOENT" ? "there is no such program" : message,
  }));
  if ("problem" in answer) return answer.problem;
  return { path: answer.executable, base: answer.base, version: answer.version };
}

/** Interpreters by version, looked up on first use. `preferred` is the configured one. */
export class Interpreters {
  readonly #preferred: string;
  readonly #found = new Map<string, Promise<Interpreter>>();
  #default: Promise<Interpreter> | undefined;

  constructor(preferred: string | undefined) {
    this.#preferred = preferred ?? "python3";
  }

  /** The configured interpreter, or the first python3 on the PATH. */
  default(): Promise<Interpreter> {
    this.#default ??= ask(this.#preferred).then((found) => {
      if (typeof found !== "string") return found;
      throw new SvcError("TOOL_MISSING", `No Python interpreter answers to "${this.#preferred}": ${found}.`, {
        help: "Install Python 3.10 or newer, or set SVC_PYTHON.",
      });
    });
    return this.#default;
  }

  find(version: string): Promise<Interpreter> {
    const found = getOrInsert(this.#found, version, () => this.#search(version));
    found.catch(() => this.#found.delete(version));
    return found;
  }

  async #search(version: string): Promise<Interpreter> {
    const usual = await this.default();
    if (usual.version === version) return usual;
    const named = await ask(`python${version}`);
    if (typeof named !== "string" && named.version === version) return named;
    throw new SvcError("NO_CAPACITY", `This machine has no Python ${version} (it has ${usual.version}).`, {
      help: `Install python${version}, or declare python_version="${usual.version}" and deploy again.`,
    });
  }
}
