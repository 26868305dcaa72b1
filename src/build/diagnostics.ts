import { type ErrorCode, SvcError } from "../domain/errors.ts";
import type { Diagnostic } from "./build-result.ts";
import { formatDiagnostic } from "./format-diagnostic.ts";

/** Everything that stands in the way of a build, all at once. `message` is the plain rendering of the errors. */
export class BuildProblems extends SvcError {
  /** Errors and warnings, in the order of the files. */
  readonly diagnostics: readonly Diagnostic[];

  constructor(
    diagnostics: readonly Diagnostic[],
    code: ErrorCode = "BUILD_FAILED",
    options: { message?: string; help?: string } = {},
  ) {
    const errors = diagnostics.filter(isError);
    const count = errors.length === 1 ? "1 problem" : `${errors.length} problems`;
    const rendered = errors.map((diagnostic) => formatDiagnostic(diagnostic)).join("\n\n");
    super(code, options.message ?? `The project cannot be built: ${count}.\n\n${rendered}`, { help: options.help });
    this.name = "BuildProblems";
    this.diagnostics = diagnostics;
  }
}

export function isError(diagnostic: Diagnostic): boolean {
  return diagnostic.severity === "error";
}

/** By file, then line, then column; what has no file comes last. Exact repetitions are dropped. */
export function sortDiagnostics(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const key = (d: Diagnostic) => `${d.file ?? "\uffff"}\0${pad(d.line)}\0${pad(d.column)}\0${d.rule}\0${d.message}`;
  const byKey = new Map(diagnostics.map((diagnostic) => [key(diagnostic), diagnostic]));
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, diagnostic]) => diagnostic);
}

function pad(position: number | undefined): string {
  return String(position ?? 0).padStart(9, "0");
}
