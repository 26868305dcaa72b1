/**
 * Installs wheels of Python packages into a folder: with uv where it is on PATH, else with the pip of the first Python
 * that has one. Index settings and credentials come from the user's own configuration of that tool.
 */

import { onPath } from "../lib/on-path.ts";
import { type ProcessResult, runProcess } from "../lib/run-process.ts";
import { withoutCredentials } from "./install-output.ts";

export interface Installation {
  /** Folder that gets the packages. */
  readonly target: string;
  /** "3.11": the Python that will import them. */
  readonly pythonVersion: string;
  /** Flags for the tool that was found. */
  readonly options?: readonly string[];
  readonly requirements: readonly string[];
  /** Where the tool runs; uv reads a project's configuration from there. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine?: ((line: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The tool ran and gave up. What it printed is in `output`, without credentials. */
export class InstallFailed extends Error {
  readonly output: string;

  constructor(output: string) {
    super("The installer failed.");
    this.output = withoutCredentials(output);
  }
}

/** There is no tool: neither uv nor a Python with a pip that can do it. */
export class NoInstaller extends Error {
  readonly pipTooOld: boolean;

  constructor(pipTooOld: boolean) {
    super("Neither uv nor pip was found.");
    this.pipTooOld = pipTooOld;
  }
}

export class PythonInstaller {
  readonly tool: "uv" | "pip";
  readonly #uv: string | undefined;
  readonly #pythons: readonly string[];
  readonly #run: typeof runProcess;

  /** `pythons`: commands or paths in the order of preference; `run` starts the tool. */
  constructor(env: Readonly<Record<string, string | undefined>>, pythons: readonly string[], run = runProcess) {
    this.#run = run;
    this.#uv = onPath("uv", env.PATH ?? "");
    this.tool = this.#uv === undefined ? "pip" : "uv";
    const found = [...pythons, "python3"].flatMap((python) => onPath(python, env.PATH ?? "") ?? []);
    this.#pythons = [...new Set(found)];
  }

  /** Throws InstallFailed or NoInstaller. */
  async install(job: Installation): Promise<void> {
    const common = ["--target", job.target, "--python-version", job.pythonVersion, "--only-binary", ":all:"];
    // What stands behind "--" is never an option.
    const rest = [...(job.options ?? []), "--", ...job.requirements];
    if (this.#uv !== undefined) {
      const python = this.#pythons[0];
      const args = ["pip", "install", "--no-progress", ...(python === undefined ? [] : ["--python", python])];
      refuseFailure(await this.#start(this.#uv, [...args, ...common, ...rest], job));
      return;
    }
    let tooOld = false;
    for (const python of this.#pythons) {
      const result = await this.#start(python, ["-c", WHEELS_ONLY, "install", ...PIP_QUIET, ...common, ...rest], job);
      const missing = /No module named pip\b/.test(result.stderr);
      const old = /no such option: --(report|dry-run|root-user-action)/.test(result.stderr);
      if (!missing && !old) return refuseFailure(result);
      tooOld ||= old;
    }
    throw new NoInstaller(tooOld);
  }

  #start(command: string, args: readonly string[], job: Installation): Promise<ProcessResult> {
    const { onLine } = job;
    return this.#run(command, args, {
      cwd: job.cwd,
      // A setting such as "always --user" does not go together with a target folder.
      env: { ...job.env, PIP_USER: "0", PIP_REQUIRE_VIRTUALENV: "0", PYTHONSAFEPATH: "1", NO_COLOR: "1" },
      signal: job.signal,
      group: job.signal !== undefined,
      onLine: onLine && ((line) => onLine(withoutCredentials(line))),
    });
  }
}

/**
 * pip takes `--only-binary` for what it finds on an index. A package that another one gives by the address of its source would
 * still be built, which runs its code: pip starts Python for that, and for nothing else here.
 */
const WHEELS_ONLY = `
import os, runpy, sys
def refuse(event, values):
    started = [os.fsdecode(one) for one in (values[0], *values[1][:1]) if one] if event == "subprocess.Popen" else ()
    if sys.executable in started:
        os.write(2, b"ERROR: only wheels are installed (only-binary), and one of these packages has only its source\\n")
        os._exit(1)
sys.path[:] = [entry for entry in sys.path if entry]
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`;

const PIP_QUIET = [
  "--disable-pip-version-check",
  "--no-input",
  "--no-compile",
  "--no-warn-conflicts",
  "--root-user-action=ignore",
  "--progress-bar=off",
];

function refuseFailure({ code, stdout, stderr }: ProcessResult): void {
  if (code !== 0) throw new InstallFailed(`${stdout}\n${stderr}`);
}
