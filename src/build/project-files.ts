import { type BigIntStats, type Dirent, fstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import path from "node:path";
import ignore from "ignore";
import { SvcError } from "../domain/errors.ts";
import type { Diagnostic } from "./build-result.ts";
import { diskProblem } from "./file-problem.ts";
import { droppingRule, type RuleFile, ruleFilesAbove, ruleFilesIn } from "./ignore-rules.ts";

export interface ProjectFile {
  /** Relative to the project, with "/". */
  readonly path: string;
  readonly executable: boolean;
  readonly sizeBytes: number;
  /** Changes whenever the file may have changed: size, times, inode. */
  readonly stamp: string;
  readonly modifiedMs: number;
  /** Target of a symbolic link that stays inside the project. */
  readonly linkTo?: string;
}

interface DroppedFile {
  /** A folder ends with "/" and stands for all below it. */
  readonly path: string;
  /** The rule and the file it stands in. */
  readonly rule: string;
}

export interface ProjectFiles {
  /** Sorted by path. */
  readonly files: readonly ProjectFile[];
  /** That were looked into, with "/" at the end; "" is the project. */
  readonly folders: readonly string[];
  readonly dropped: readonly DroppedFile[];
  readonly diagnostics: readonly Diagnostic[];
}

/** What stands in a name for bytes that are no UTF-8. */
const NOT_UTF8 = "\ufffd";

/** What the project ships and what stays out and why. Throws NO_ENDPOINTS when the folder does not exist. */
export function listProjectFiles(projectDir: string): ProjectFiles {
  const files: ProjectFile[] = [];
  const folders: string[] = [];
  const dropped: DroppedFile[] = [];
  const diagnostics: Diagnostic[] = [];
  const root = realFolder(projectDir);

  const walk = (folder: string, inherited: readonly RuleFile[]) => {
    const entries = entriesOf(folder);
    const names = new Set(entries.map((entry) => entry.name));
    const other = folder === "" ? undefined : otherThanProject(names);
    if (other !== undefined) {
      dropped.push({ path: folder, rule: `${other} (built in)` });
      return;
    }
    folders.push(folder);
    const rules = [...inherited, ...ruleFilesIn(root, folder, names, unreadableRules)];
    for (const entry of entries) {
      const relative = `${folder}${entry.name}${entry.isDirectory() ? "/" : ""}`;
      const rule = droppingRule(relative, rules);
      if (rule !== undefined) dropped.push({ path: relative, rule });
      else if (entry.isDirectory()) walk(relative, rules);
      else if (entry.isSymbolicLink()) addLink(relative);
      else if (entry.isFile()) add(relative);
      else dropped.push({ path: relative, rule: "neither a file nor a folder (built in)" });
    }
  };

  const unreadable = (place: string, error: unknown, help: string) => {
    const { code, message } = error as NodeJS.ErrnoException;
    // It went away meanwhile, or cannot be named here.
    if (code === "ENOENT" && !place.includes(NOT_UTF8)) return;
    const reason = code === "ENOENT" ? "its name is not UTF-8" : (diskProblem(error) ?? message);
    diagnostics.push({
      severity: "error",
      rule: "unreadable",
      message: `${place} cannot be read: ${reason}.`,
      help,
      file: place,
    });
  };

  const unreadableRules = (label: string, error: unknown) =>
    unreadable(label, error, "Make it a file that you may read: it says what does not ship.");

  const entriesOf = (folder: string): Dirent[] => {
    try {
      return readdirSync(path.join(root, folder), { withFileTypes: true });
    } catch (error) {
      unreadable(folder || "./", error, readableOrLeftOut(folder));
      return [];
    }
  };

  const statOf = (file: string): BigIntStats | undefined => {
    try {
      return statSync(path.join(root, file), { bigint: true });
    } catch (error) {
      unreadable(file, error, readableOrLeftOut(file));
      return undefined;
    }
  };

  const outputs = ownOutputs();
  const add = (relative: string) => {
    const stat = statOf(relative);
    if (stat === undefined) return;
    if (outputs.has(fileId(stat))) dropped.push({ path: relative, rule: "what this command prints (built in)" });
    else files.push(describe(relative, stat));
  };

  const addLink = (relative: string) => {
    const target = insideTarget(root, relative);
    if (target !== undefined) {
      files.push({ path: relative, executable: false, sizeBytes: 0, stamp: target, modifiedMs: 0, linkTo: target });
      return;
    }
    diagnostics.push({
      severity: "error",
      rule: "link-outside",
      message: `The symbolic link ${relative} points outside the project or to nothing, so workers would not find its target.`,
      help: `Copy the target into the project, or add ${relative} to .svcignore.`,
      file: relative,
    });
  };

  walk("", ruleFilesAbove(root, unreadableRules));
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  diagnostics.push(...privateFileWarnings(files));
  dropped.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { files, folders, dropped, diagnostics };
}

function readableOrLeftOut(place: string): string {
  const otherwise = place.includes(NOT_UTF8) ? ", or rename it" : place && `, or add ${place} to .svcignore`;
  return `Make it readable for you${otherwise}.`;
}

function realFolder(projectDir: string): string {
  try {
    const real = realpathSync(projectDir);
    if (statSync(real).isDirectory()) return real;
  } catch {
    // Said below.
  }
  throw new SvcError("NO_ENDPOINTS", `The project folder ${projectDir} does not exist.`, {
    help: "Run the command in the project's folder.",
  });
}

/** What a folder is, going by what stands in it, when it is none of the project's. */
function otherThanProject(names: ReadonlySet<string>): string | undefined {
  if (names.has("pyvenv.cfg")) return "a virtual environment";
  // Keys of the platform, and what it writes meanwhile: `--data-dir data` in the project's folder.
  const isOfPlatform = ["platform.db", "platform.json", "launcher.json", "secret.key"].some((name) => names.has(name));
  if (names.has("version") && isOfPlatform) return "a platform's data directory";
  if (names.has("agent.lock")) return "a machine's data directory";
  return names.has("credentials.json") && names.has("cache.key") ? "svc's own keys" : undefined;
}

/** Files that this process writes to: `svc run > out.log` must not take its own words for new code. */
function ownOutputs(): ReadonlySet<string> {
  const found = [1, 2].flatMap((descriptor) => {
    try {
      const stat = fstatSync(descriptor, { bigint: true });
      return stat.isFile() ? [fileId(stat)] : [];
    } catch {
      return [];
    }
  });
  return new Set(found);
}

function fileId({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

function describe(relative: string, stat: BigIntStats): ProjectFile {
  return {
    path: relative,
    executable: (stat.mode & 0o100n) !== 0n,
    sizeBytes: Number(stat.size),
    stamp: `${stat.size}-${stat.mtimeNs}-${stat.ctimeNs}-${stat.ino}`,
    modifiedMs: Math.max(Number(stat.ctimeMs), Number(stat.mtimeMs)),
  };
}

/** The link's target relative to the link's folder when it leads to something inside the project. */
function insideTarget(root: string, relative: string): string | undefined {
  const link = path.join(root, relative);
  try {
    const real = realpathSync(link);
    if (real !== root && !real.startsWith(root + path.sep)) return undefined;
    const target = readlinkSync(link);
    const direct = path.resolve(path.dirname(link), target);
    const inside = path.relative(root, direct);
    if (inside.startsWith("..")) return undefined;
    // By folders alone: a platform follows no link on the way to another.
    const straight = realpathSync(path.dirname(direct)) === path.dirname(direct) ? direct : real;
    return path.relative(path.dirname(link), straight).split(path.sep).join("/");
  } catch {
    return undefined;
  }
}

const PATTERNS = [
  "id_rsa",
  "id_dsa",
  "id_ecdsa",
  "id_ed25519",
  "*.pem",
  "*.key",
  "*.p12",
  "*.pfx",
  "*.jks",
  "*.keystore",
  "*.kdbx",
  "*.ppk",
  ".ssh/",
  ".aws/",
  ".kube/",
  ".docker/",
  ".gnupg/",
  ".git-credentials",
  ".htpasswd",
  ".pgpass",
  "credentials.json",
  "service-account*.json",
  "secrets.y*ml",
  "secrets.json",
  "*.tfstate",
];

const looksPrivate = ignore().add(PATTERNS);
const NAMED_MAX = 5;

/** Files that look like keys: they ship when no rule keeps them out, so the build names them. */
function privateFileWarnings(files: readonly { readonly path: string }[]): Diagnostic[] {
  const found = files.map(({ path }) => path).filter((path) => looksPrivate.ignores(path));
  if (found.length === 0) return [];
  const named = found.slice(0, NAMED_MAX).join(", ");
  const more = found.length > NAMED_MAX ? ` and ${found.length - NAMED_MAX} more` : "";
  return [
    {
      severity: "warning",
      rule: "private-file",
      message: `The build ships what looks private: ${named}${more}.`,
      help: "Add it to .svcignore, and give workers keys as secrets (svc secret set).",
    },
  ];
}
