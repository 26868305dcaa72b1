/**
 * Which files a project ships. Rules are asked in this order and the last one that has an opinion decides:
 * the .gitignore files above the project (up to the repository's root), then .gitignore and .svcignore of each
 * folder from the project's root down. What BUILT_IN names never ships, whatever those files say.
 */
import { existsSync } from "node:fs";
import path from "node:path";
import ignore, { type Ignore } from "ignore";
import { readPlainText } from "../lib/plain-text.ts";

const BUILT_IN = [
  ".env",
  ".env.*",
  ".envrc",
  ".git",
  ".hg",
  ".svn",
  ".svc",
  ".platform",
  ".gitignore",
  ".svcignore",
  "__pycache__",
  "*.pyc",
  ".venv",
  "node_modules",
  ".tox",
  ".nox",
  ".mypy_cache",
  ".pytest_cache",
  ".ruff_cache",
  ".ipynb_checkpoints",
  "*.egg-info",
  ".DS_Store",
  ".idea",
  ".vscode",
  ".netrc",
  ".pypirc",
  ".npmrc",
  "pip.conf",
  "pip.ini",
];

const builtIn = ignore().add(BUILT_IN);

/** The rules of one file, for paths below one folder. */
export interface RuleFile {
  /** What the user calls the file: ".gitignore", "models/.svcignore". */
  readonly label: string;
  /** The folder the rules speak about, relative to the project with "/" at its end; "" is the project. */
  readonly folder: string;
  /** What stands before a project path to make it relative to the rules' folder. */
  readonly prefix: string;
  readonly rules: Ignore;
}

/** The rule that keeps `file` out, as "pattern (file)", or undefined when it ships. Folders end with "/". */
export function droppingRule(file: string, ruleFiles: readonly RuleFile[]): string | undefined {
  const always = builtIn.test(file);
  if (always.ignored) return `${always.rule?.pattern} (built in)`;
  let dropped: string | undefined;
  for (const { folder, prefix, rules, label } of ruleFiles) {
    const result = rules.test(prefix + file.slice(folder.length));
    if (result.ignored) dropped = `${result.rule?.pattern} (${label})`;
    else if (result.unignored) dropped = undefined;
  }
  return dropped;
}

/** Gets what cannot be read, as the user calls it. */
export type Unreadable = (label: string, error: unknown) => void;

/** The rule files that stand in one folder of the project. */
export function ruleFilesIn(
  projectDir: string,
  folder: string,
  names: ReadonlySet<string>,
  unreadable: Unreadable,
): RuleFile[] {
  return [".gitignore", ".svcignore"]
    .filter((name) => names.has(name))
    .flatMap((name) => {
      const label = folder + name;
      const rules = rulesOf(path.join(projectDir, label), label, unreadable);
      return rules === undefined ? [] : [{ label, folder, prefix: "", rules }];
    });
}

/** .gitignore files of the repository above the project, outermost first. One that ignores the project itself has no say. */
export function ruleFilesAbove(projectDir: string, unreadable: Unreadable): RuleFile[] {
  const above: RuleFile[] = [];
  let folder = projectDir;
  while (!existsSync(path.join(folder, ".git"))) {
    const parent = path.dirname(folder);
    if (parent === folder) return [];
    folder = parent;
    const file = path.join(folder, ".gitignore");
    if (!existsSync(file)) continue;
    const prefix = `${path.relative(folder, projectDir).split(path.sep).join("/")}/`;
    const label = path.relative(projectDir, file);
    const rules = rulesOf(file, label, unreadable);
    if (rules?.ignores(prefix) === false) above.unshift({ label, folder: "", prefix, rules });
  }
  return above;
}

function rulesOf(file: string, label: string, unreadable: Unreadable): Ignore | undefined {
  try {
    return ignore().add(readPlainText(file));
  } catch (error) {
    unreadable(label, error);
    return undefined;
  }
}
