import picocolors from "picocolors";
import type { Diagnostic } from "./build-result.ts";

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
