/**
 * Finds what a project declares without running any of its code:
 * list files → parse those that may declare endpoints → find → group → check.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import type { SvcError } from "../domain/errors.ts";
import type { Diagnostic } from "./build-result.ts";
import { checkImports } from "./check-imports.ts";
import { askSyntax, type SyntaxJudge, type SyntaxMemory, syntaxProblems } from "./check-syntax.ts";
import { BuildProblems, isError, sortDiagnostics } from "./diagnostics.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import { findEndpoints } from "./find-endpoints.ts";
import { Folder } from "./fold.ts";
import { groupEndpoints } from "./group-endpoints.ts";
import { findPython, type Interpreter } from "./interpreter.ts";
import { ModuleGraph } from "./module-graph.ts";
import { NamesInScope } from "./names-in-scope.ts";
import { listProjectFiles, type ProjectFiles } from "./project-files.ts";
import type { PythonModule } from "./python-module.ts";
import { PythonParser } from "./python-parser.ts";
import { SettingsReader } from "./read-settings.ts";
import { withoutSecrets } from "./secrets.ts";

export interface ScanOptions {
  readonly projectDir: string;
  /** Where os.environ["X"] in `env=` is looked up; its PATH has python3. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Interpreter that judges the syntax; default: the python3 on PATH. */
  readonly python?: () => Promise<Interpreter>;
  /** With it Python judges every file once, not only those that the grammar doubts. */
  readonly syntaxMemory?: SyntaxMemory;
  /** With it every file is judged by it. */
  readonly syntaxJudge?: SyntaxJudge;
}

export interface Scan {
  /** Sorted by name. Holds what could be read even when there are errors. */
  readonly endpoints: readonly EndpointDeclaration[];
  /** Errors and warnings, sorted by place. */
  readonly diagnostics: readonly Diagnostic[];
  readonly files: ProjectFiles;
  /** Files of Python that were looked into. */
  readonly scanned: readonly string[];
}

/** Never throws for what stands in the project's files: see Scan.diagnostics and requireScan(). */
export async function scanProject(options: ScanOptions): Promise<Scan> {
  const files = listProjectFiles(options.projectDir);
  const parser = await PythonParser.load();
  try {
    return await scanFiles(options, files, parser);
  } finally {
    parser.dispose();
  }
}

async function scanFiles(options: ScanOptions, files: ProjectFiles, parser: PythonParser): Promise<Scan> {
  const diagnostics: Diagnostic[] = [...files.diagnostics];
  const report = (diagnostic: Diagnostic) => diagnostics.push(diagnostic);
  const graph = new ModuleGraph(options.projectDir, files.files, parser);
  const names = new NamesInScope(graph);
  const modules = candidates(options.projectDir, files, graph, report);
  const python = options.python ?? (() => findPython({ env: options.environment }));
  // Python reads the files while they are looked into here.
  const judged = askSyntax(modules, { python, memory: options.syntaxMemory, judge: options.syntaxJudge });

  const found = modules.map((module) => findEndpoints(module, names));
  for (const each of found) diagnostics.push(...each.diagnostics);
  const folder = new Folder(names);
  const reader = new SettingsReader(folder, options.environment, report);
  const uses = found.flatMap((each) => each.uses);
  const objects = found.flatMap((each) => each.objects);
  const { endpoints, functions } = groupEndpoints(objects, uses, reader, folder, report);
  checkImports(functions, graph, names, report);
  for (const module of new Set(uses.map((use) => use.module))) checkModuleName(module, report);
  if (graph.has("svc")) report(shadowed(files));
  const verdicts = await judged;
  if (verdicts.size > 0) diagnostics.push(...syntaxProblems(verdicts, await newerPython(endpoints, python)));
  return {
    endpoints,
    diagnostics: sortDiagnostics(diagnostics.map((each) => withoutSecrets(each, reader.secrets))),
    files,
    scanned: files.files.filter((file) => file.path.endsWith(".py")).map((file) => file.path),
  };
}

/** The newest version that an endpoint declares, when it is newer than the local one. */
async function newerPython(
  endpoints: readonly EndpointDeclaration[],
  python: () => Promise<Interpreter>,
): Promise<string | undefined> {
  const minor = (version: string) => Number(version.split(".")[1]);
  const local = await python().then(
    ({ version }) => minor(version),
    () => undefined,
  );
  const newer = endpoints
    .flatMap(({ pythonVersion }) => pythonVersion ?? [])
    .filter((version) => local !== undefined && minor(version) > local);
  return newer.sort((a, b) => minor(b) - minor(a))[0];
}

const MAY_DECLARE =
  /\bEndpoint\b|^[ \t]*@[\w.]+\.(get|post|put|patch|delete|head|options|route|websocket|asgi)\b|\bsvc\b/m;

/** The files worth parsing, parsed: those that mention svc, an endpoint, or a name another file gave to Endpoint. */
function candidates(
  projectDir: string,
  files: ProjectFiles,
  graph: ModuleGraph,
  report: (diagnostic: Diagnostic) => void,
): PythonModule[] {
  const rest: { path: string; text: string }[] = [];
  const modules: PythonModule[] = [];
  const aliases = new Set<string>();
  for (const file of files.files) {
    if (!file.path.endsWith(".py") || file.linkTo !== undefined) continue;
    const text = readFileSync(path.join(projectDir, file.path), "utf8");
    if (text.includes("\ufffd") && MAY_DECLARE.test(text)) report(notUtf8(file.path));
    if (!MAY_DECLARE.test(text)) {
      rest.push({ path: file.path, text });
      continue;
    }
    modules.push(graph.byFile(file.path, text));
    for (const match of text.matchAll(/\bEndpoint\s+as\s+(\w+)|\b(\w+)\s*=\s*Endpoint\b(?!\s*\()/g))
      aliases.add(match[1] ?? match[2]!);
  }
  if (aliases.size > 0) {
    const mention = new RegExp(`\\b(${[...aliases].join("|")})\\b`);
    for (const file of rest) if (mention.test(file.text)) modules.push(graph.byFile(file.path, file.text));
  }
  return modules;
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
  return new BuildProblems(scan.diagnostics, "NO_ENDPOINTS", {
    message: `No function of the project is decorated with Endpoint.\n${looked}${left}`,
    help: 'Decorate a function with @Endpoint(name="hello") from svc, or start with `svc init`.',
  });
}

function checkModuleName(module: PythonModule, report: (diagnostic: Diagnostic) => void): void {
  if (/^[\w-]+(\.[\w-]+)*$/.test(module.name) && !/[. ]/.test(path.posix.basename(module.path, ".py"))) return;
  report({
    severity: "error",
    rule: "module-name",
    message: `${module.path} cannot be imported, because its path is no module name.`,
    help: "Use letters, digits and _ in the names of files and folders.",
    file: module.path,
  });
}

function notUtf8(file: string): Diagnostic {
  return {
    severity: "error",
    rule: "encoding",
    message: `${file} is not UTF-8 text.`,
    help: "Save it as UTF-8.",
    file,
  };
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
