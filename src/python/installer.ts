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
  /**
   * Packages that are not installed, nor what only they need: name → versions that others must go together with, "" for any.
   * For pip only: uv has `--overrides`. A pip that cannot do it installs them.
   */
  readonly leaveOut?: Readonly<Record<string, string>>;
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
      const result = await this.#start(python, ["-c", PIP, "install", ...PIP_QUIET, ...common, ...rest], job);
      const missing = /No module named pip\b/.test(result.stderr);
      const old = /no such option: --(report|dry-run|root-user-action)/.test(result.stderr);
      if (!missing && !old) return refuseFailure(result);
      tooOld ||= old;
    }
    throw new NoInstaller(tooOld);
  }

  #start(command: string, args: readonly string[], job: Installation): Promise<ProcessResult> {
    const { onLine, leaveOut } = job;
    return this.#run(command, args, {
      cwd: job.cwd,
      // A setting such as "always --user" does not go together with a target folder.
      env: {
        ...job.env,
        ...(leaveOut && { SVC_LEAVE_OUT: JSON.stringify(leaveOut) }),
        PIP_USER: "0",
        PIP_REQUIRE_VIRTUALENV: "0",
        PYTHONSAFEPATH: "1",
        NO_COLOR: "1",
      },
      signal: job.signal,
      group: job.signal !== undefined,
      onLine: onLine && ((line) => onLine(withoutCredentials(line))),
    });
  }
}

/**
 * pip takes `--only-binary` for what it finds on an index. A package that another one gives by the address of its source would
 * still be built, which runs its code: pip starts Python for that, and for nothing else here. Nor can pip leave out what another
 * package asks for: it would fetch gigabytes to drop them. So that is taken out of what packages ask for as pip reads it.
 */
const PIP = `
import json, os, runpy, sys
def refuse(event, values):
    started = [os.fsdecode(one) for one in (values[0], *values[1][:1]) if one] if event == "subprocess.Popen" else ()
    if sys.executable in started:
        os.write(2, b"ERROR: only wheels are installed (only-binary), and one of these packages has only its source\\n")
        os._exit(1)
def leave_out(names):
    from pip._internal.metadata import select_backend
    from pip._vendor.packaging.specifiers import SpecifierSet
    from pip._vendor.packaging.utils import canonicalize_name
    from pip._vendor.packaging.version import InvalidVersion, Version
    def go_together(asked, own):
        both = asked & SpecifierSet(own)
        probes = ["0"]
        for one in both:
            text = one.version[:-2] if one.version.endswith(".*") else one.version
            try:
                *start, last = Version(text).release
            except InvalidVersion:
                continue
            probes += [text, text + ".1", ".".join(map(str, [*start, last + 1]))]
        return any(both.contains(probe, prereleases=True) for probe in probes)
    kind = select_backend().Distribution
    every_dependency = kind.iter_dependencies
    found = set()
    def iter_dependencies(self, extras=()):
        found.add(self.canonical_name)
        wanted = [(canonicalize_name(one.name), one) for one in every_dependency(self, extras)]
        kept = [(name, one) for name, one in wanted if name not in names or not go_together(one.specifier, names[name])]
        found.update(name for name, _ in kept)
        os.write(1, f"svc: found {len(found)} packages\\n".encode())
        return [one for _, one in kept]
    kind.iter_dependencies = iter_dependencies
sys.path[:] = [entry for entry in sys.path if entry]
sys.addaudithook(refuse)
sys.argv[0] = "pip"
names = os.environ.pop("SVC_LEAVE_OUT", None)
try:
    if names is not None:
        leave_out(json.loads(names))
except (ImportError, AttributeError):
    pass  # Another pip: what is to stay out is taken out behind it.
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
