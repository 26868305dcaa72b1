import { existsSync } from "node:fs";
import { access, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path, { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { SvcError } from "../../domain/errors.ts";
import { wheelName } from "../../domain/published-name.ts";
import { VERSION } from "../../domain/version.ts";
import { makeFolder } from "../../lib/make-folder.ts";
import { runProcess } from "../../lib/run-process.ts";
import { command, switchFlag } from "../command.ts";
import { detectedApp } from "../project-settings.ts";

/** Names a package registry would drop or take as its own are stored without their dot. */
const TARGET_NAMES: Readonly<Record<string, string>> = {
  gitignore: ".gitignore",
  svcignore: ".svcignore",
  "env.example": ".env.example",
};

const PROJECT_NAME = "__PROJECT_NAME__";
const WHEEL = "__WHEEL__";
/** Beside what builds leave there; .gitignore lets it into the repository, so a clone of the project installs too. */
const WHEEL_FOLDER = ".svc/wheels";

/** No line is wider than a terminal of 80 columns. */
const NEXT_STEPS = [
  "cp .env.example .env             # only for a platform of another machine",
  "pip install -r requirements.txt  # to call endpoints from Python",
  "svc run                          # then open http://localhost:8888/docs",
  "svc deploy",
];

/** Writes the template. Existing files are overwritten only with --force or after a yes. */
export const initCommand = command({
  brief: "Start a project from working examples",
  text: "Creates a project with one endpoint of each kind. Only local files are made, nothing is deployed.",
  examples: [
    ["svc init my-project", "Make the directory my-project"],
    ["svc init . --force", "Fill this directory, overwriting what is there"],
  ],
  flags: { force: switchFlag("Overwrite existing files without asking") },
  aliases: { f: "force" },
  parameters: [{ placeholder: "PROJECT_NAME", brief: 'Directory to create; "." is this one', parse: projectName }],
  async run(flags, name) {
    const { terminal, cwd } = this;
    const target = resolve(cwd, name);
    await refuseFile(target, name);
    const files = await templateFiles(detectedApp(target));
    const existing = await present(target, [...files.keys()]);
    if (existing.length > 0 && !flags.force) {
      terminal.note("These files would be overwritten:");
      for (const file of existing) terminal.note(`  ${file}`);
      if (!(await terminal.confirm("Continue and overwrite these files?", false))) {
        throw new SvcError("FILES_EXIST", "Nothing was written: the files stay as they are.", {
          where: target,
          help: "Use --force to overwrite them, or give another directory.",
        });
      }
    }
    await writeFiles(target, files);
    await placeWheel(join(target, WHEEL_FOLDER), this.env);
    terminal.out(target === cwd ? "Filled this directory:" : `Created ${name}:`);
    for (const file of files.keys()) terminal.out(`  ${file}`);
    terminal.out();
    terminal.out("Next:");
    if (target !== cwd) terminal.out(`  cd ${relative(cwd, target)}`);
    for (const step of NEXT_STEPS) terminal.out(`  ${step}`);
  },
});

function projectName(text: string): string {
  if (text.trim() === "") throw new Error("the name of a directory is needed");
  return text;
}

async function refuseFile(target: string, name: string): Promise<void> {
  const found = await stat(target).catch(() => undefined);
  if (found === undefined || found.isDirectory()) return;
  throw new SvcError("FILES_EXIST", `"${name}" is a file, not a directory.`, {
    where: target,
    help: "Choose another name.",
  });
}

/** Name and content of each file of a new project. */
async function templateFiles(projectName: string): Promise<Map<string, string>> {
  const directory = await templateDirectory();
  const files = (await readdir(directory)).map(async (stored): Promise<[name: string, text: string]> => {
    const text = await readFile(join(directory, stored), "utf8");
    return [
      TARGET_NAMES[stored] ?? stored,
      text.replaceAll(PROJECT_NAME, projectName).replaceAll(WHEEL, wheelName(VERSION)),
    ];
  });
  return new Map((await Promise.all(files)).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** templates/init/ stands beside src/ in a clone and beside dist/ in an installed package. */
async function templateDirectory(): Promise<string> {
  for (let at = dirname(fileURLToPath(import.meta.url)); at !== dirname(at); at = dirname(at)) {
    const candidate = join(at, "templates", "init");
    if (await exists(candidate)) return candidate;
  }
  throw new SvcError("TOOL_MISSING", "The project template is missing from this installation of svc.", {
    help: "Install svc again.",
  });
}

async function present(target: string, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => exists(join(target, name))));
  return names.filter((_, index) => found[index]);
}

async function writeFiles(target: string, files: ReadonlyMap<string, string>): Promise<void> {
  try {
    makeFolder(target);
    for (const [name, text] of files) await writeFile(join(target, name), text);
  } catch (error) {
    throw new SvcError("CONFLICT", `The project could not be written: ${(error as Error).message}.`, {
      where: target,
      help: "Choose another directory.",
      cause: error,
    });
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/**
 * Makes the wheel of the Python package that svc carries, so that a project installs exactly the SDK of its svc. Puts it into
 * `directory`, which is made when it is missing. Throws TOOL_MISSING.
 */
async function placeWheel(directory: string, env: Readonly<Record<string, string | undefined>>): Promise<void> {
  makeFolder(directory);
  const backend = path.join(pythonFolder(), "build_backend.py");
  const { code, stderr } = await runProcess("python3", ["-I", backend, directory], { env }).catch((error) => ({
    code: null,
    stderr: String(error),
  }));
  if (code === 0) return;
  throw new SvcError("TOOL_MISSING", `The Python package could not be packed: ${stderr.trim()}`, {
    help: "Install Python 3.10 or newer as python3.",
  });
}

/** python/ stands beside src/ in a clone and beside dist/ in an installed package. */
function pythonFolder(): string {
  for (let at = path.dirname(fileURLToPath(import.meta.url)); at !== path.dirname(at); at = path.dirname(at)) {
    const candidate = path.join(at, "python");
    // A folder of src/ has that name too.
    if (existsSync(path.join(candidate, "build_backend.py"))) return candidate;
  }
  throw new SvcError("TOOL_MISSING", "The Python package is missing from this installation of svc.", {
    help: "Install svc again.",
  });
}
