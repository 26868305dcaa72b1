import { SvcError } from "../domain/errors.ts";
import type { Terminal } from "./terminal.ts";

/**
 * What happened, where, what to do next:
 *
 *   error: Multiple environments found: dev, staging
 *     at <where>
 *     Give --env NAME.
 *     svc help MULTIPLE_ENVIRONMENTS
 *
 * The stack of an error that is not the user's is shown with SVC_DEBUG only.
 */
export function formatError(error: unknown, colors: Terminal["errColors"], debug: boolean): string {
  const label = colors.red("error:");
  if (error instanceof SvcError) {
    const lines = [`${label} ${error.message}`];
    if (error.where !== undefined) lines.push(indent(`at ${error.where}`));
    if (error.help !== undefined) lines.push(indent(error.help));
    // What was wrong with a command's own words needs no page.
    if (error.code !== "USAGE") lines.push(indent(colors.dim(`svc help ${error.code}`)));
    if (debug) lines.push(colors.dim(stackOf(error)));
    return lines.join("\n");
  }
  if (debug) return `${label} ${stackOf(error)}`;
  const message = error instanceof Error ? error.message : String(error);
  return `${label} ${message.split("\n")[0]}\n${indent("This is a defect of svc. Run again with SVC_DEBUG=1 for details.")}`;
}

/** 2 for wrong use of a command, 1 for everything else. */
export function exitCodeOf(error: unknown): number {
  return error instanceof SvcError && error.code === "USAGE" ? 2 : 1;
}

function indent(text: string): string {
  return text.replace(/^/gm, "  ");
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? "" : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
