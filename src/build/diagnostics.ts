/** Findings of a build: in order, as one error, and as text with the line they stand in. */
import picocolors from "picocolors";
import { type ErrorCode, SvcError } from "../domain/errors.ts";
import type { Diagnostic } from "./build-result.ts";

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

const SOURCE_MAX_CHARS = 120;

/**
 * error[duplicate-name]: Two functions are named "hello".
 *   --> workers/a.py:3:16
 *    |
 *  3 | @Endpoint(name="hello")
 *    |                ^^^^^^^
 *   help: …
 */
export function formatDiagnostic(diagnostic: Diagnostic, color = false): string {
  const paint = picocolors.createColors(color);
  const tone = diagnostic.severity === "error" ? paint.red : paint.yellow;
  const head = `${tone(paint.bold(`${diagnostic.severity}[${diagnostic.rule}]`))}: ${paint.bold(diagnostic.message)}`;
  const lines = [head];
  if (diagnostic.file !== undefined) {
    const place = [diagnostic.file, diagnostic.line, diagnostic.column].filter((part) => part !== undefined).join(":");
    lines.push(`  ${paint.cyan("-->")} ${place}`);
  }
  if (diagnostic.source !== undefined && diagnostic.line !== undefined)
    lines.push(...codeFrame(diagnostic, tone, paint));
  if (diagnostic.help !== "") lines.push(`  ${paint.cyan("help")}: ${diagnostic.help}`);
  return lines.join("\n");
}

function codeFrame(
  diagnostic: Diagnostic,
  tone: (text: string) => string,
  paint: { cyan: (text: string) => string },
): string[] {
  const number = String(diagnostic.line);
  const gutter = " ".repeat(number.length);
  const full = diagnostic.source!.replaceAll("\t", " ");
  const place = (diagnostic.column ?? 1) - 1;
  // A long line is shown from a little before the place.
  const from = place > SOURCE_MAX_CHARS / 2 ? place - SOURCE_MAX_CHARS / 4 : 0;
  const source = `${from > 0 ? "…" : ""}${full.slice(from, from + SOURCE_MAX_CHARS)}`;
  const start = place - from + (from > 0 ? 1 : 0);
  const width = Math.max(1, Math.min(diagnostic.length ?? 1, source.length - start));
  const marks = `${" ".repeat(start)}${tone("^".repeat(width))}`;
  return [
    ` ${gutter} ${paint.cyan("|")}`,
    ` ${paint.cyan(number)} ${paint.cyan("|")} ${source}`,
    ` ${gutter} ${paint.cyan("|")} ${marks}`,
  ];
}
