/**
 * Finds what a project declares without running any of its code:
 * list files → Python reads those that may declare endpoints → group → check.
 */
import path from "node:path";
import type { SvcError } from "../domain/errors.ts";
import type { Diagnostic } from "./build-result.ts";
import { checkImports, type ImportingFunction } from "./check-imports.ts";
import { BuildProblems, formatDiagnostic, isError, sortDiagnostics } from "./diagnostics.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import { endpointFindings } from "./endpoint-findings.ts";
import type { Facts } from "./facts.ts";
import { groupEndpoints } from "./group-endpoints.ts";
import { namesStandardModule } from "./import-names.ts";
import { findPython, type Interpreter } from "./interpreter.ts";
import { listProjectFiles, type ProjectFiles } from "./project-files.ts";
import { PythonScanner } from "./python-scanner.ts";
import { readFacts, type ScanMemory } from "./read-facts.ts";
import { SettingsReader } from "./read-settings.ts";
import { withoutSecrets } from "./secrets.ts";
import { moduleName, type Report, Sources } from "./sources.ts";

export interface ScanOptions {
  readonly projectDir: string;
  /** Where os.environ["X"] in `env=` is looked up; its PATH has python3. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Interpreter that reads the files; default: the python3 on PATH. */
  readonly python?: () => Promise<Interpreter>;
  /** With it an unchanged project is not read again. */
  readonly memory?: ScanMemory;
  /** Asked instead of a Python that is started for this scan. */
  readonly scanner?: PythonScanner;
}

export interface Scan {
  /** Sorted by name. Holds what could be read even when there are errors. */
  readonly endpoints: readonly EndpointDeclaration[];
  /** Errors and warnings, sorted by place. */
  readonly diagnostics: readonly Diagnostic[];
  readonly files: ProjectFiles;
  /** By endpoint: every Python file of the project that its code may need; null where it may be any. */
  readonly reach: ReadonlyMap<string, ReadonlySet<string> | null>;
  /** Files of Python that were looked into. */
  readonly scanned: readonly string[];
}

/** Never throws for what stands in the project's files: see Scan.diagnostics and requireScan(). */
export async function scanProject(options: ScanOptions): Promise<Scan> {
  const { projectDir, environment, memory } = options;
  const files = listProjectFiles(projectDir);
  const sources = new Sources(projectDir, files.files);
  const scanner = options.scanner ?? new PythonScanner(options.python ?? (() => findPython({ env: environment })));
  try {
    const { facts, diagnostics } = await readFacts(sources, scanner, environment, memory);
    const found = [...files.diagnostics, ...sources.diagnostics, ...diagnostics];
    const report: Report = (one) => found.push("at" in one ? sources.diagnostic(one) : one);
    for (const finding of endpointFindings(facts)) report(finding);
    const reader = new SettingsReader(sources, environment, report);
    const { endpoints, functions } = groupEndpoints(facts, sources, reader, report);
    checkImports(functions, facts, sources, report);
    for (const file of new Set(facts.uses.map((use) => use.file))) checkModuleName(file, report);
    if (sources.has("svc")) report(shadowed(files));
    return {
      endpoints,
      diagnostics: sortDiagnostics(found.map((each) => withoutSecrets(each, reader.secrets))),
      files,
      reach: reachOf(functions, facts),
      scanned: sources.paths,
    };
  } finally {
    if (options.scanner === undefined) scanner.close();
  }
}

function reachOf(functions: readonly ImportingFunction[], { reach }: Facts): Scan["reach"] {
  const reached = new Map<string, Set<string> | null>();
  for (const { endpoint, file } of functions) {
    const [before, own] = [reached.get(endpoint), reach[file]];
    reached.set(endpoint, own == null || before === null ? null : new Set([...(before ?? []), ...own]));
  }
  return reached;
}

/** Throws what stands in the way of a build: BUILD_FAILED with every finding, or NO_ENDPOINTS. */
export function requireScan(scan: Scan): void {
  if (scan.diagnostics.some(isError)) throw new BuildProblems(scan.diagnostics);
  if (scan.endpoints.length === 0) throw noEndpoints(scan);
}

const LISTED_MAX = 20;

function noEndpoints(scan: Scan): SvcError {
  const list = (lines: readonly string[]) =>
    [...lines.slice(0, LISTED_MAX), ...(lines.length > LISTED_MAX ? [`… and ${lines.length - LISTED_MAX} more`] : [])]
      .map((line) => `  ${line}`)
      .join("\n");
  const dropped = scan.files.dropped.filter(({ path: file }) => file.endsWith(".py") || file.endsWith("/"));
  const looked =
    scan.scanned.length === 0 ? "There is no Python file in it." : `Files looked at:\n${list(scan.scanned)}`;
  const left =
    dropped.length === 0
      ? ""
      : `\nLeft out by a rule:\n${list(dropped.map(({ path: file, rule }) => `${file}  by ${rule}`))}`;
  const notebooks = scan.files.files.filter(({ path: file }) => file.endsWith(".ipynb")).slice(0, 3);
  const cells =
    notebooks.length === 0
      ? ""
      : `\nNotebooks are not read (${notebooks.map(({ path: file }) => file).join(", ")}): call svc.deploy(function) in it, or begin the cell that declares ` +
        "the endpoint with %%writefile worker.py, and run it.";
  const near = scan.diagnostics.map((each) => `\n\n${formatDiagnostic(each)}`).join("");
  return new BuildProblems(scan.diagnostics, "NO_ENDPOINTS", {
    message: `No function of the project is decorated with Endpoint.\n${looked}${left}${cells}${near}`,
    help: 'Decorate a function with @Endpoint(name="hello") from svc, or start with `svc init`.',
  });
}

function checkModuleName(file: string, report: Report): void {
  const top = file.split("/")[0]!.replace(/\.py$/, "");
  if (namesStandardModule(top)) {
    report({
      severity: "error",
      rule: "shadowed-module",
      message: `${file} has the name of Python's own module ${top}: one of them would be imported instead of the other.`,
      help: "Rename the file or folder.",
      file,
    });
  }
  if (/^[\w-]+(\.[\w-]+)*$/.test(moduleName(file)) && !/[. ]/.test(path.posix.basename(file, ".py"))) return;
  report({
    severity: "error",
    rule: "module-name",
    message: `${file} cannot be imported, because its path is no module name.`,
    help: "Use letters, digits and _ in the names of files and folders.",
    file,
  });
}

function shadowed(files: ProjectFiles): Diagnostic {
  const file =
    files.files.find((each) => each.path === "svc.py")?.path ??
    files.files.find((each) => each.path.startsWith("svc/"))!.path;
  return {
    severity: "error",
    rule: "shadowed-svc",
    message: `${file} hides the svc package: "import svc" would import the project's own file.`,
    help: "Rename the file or folder.",
    file,
  };
}
