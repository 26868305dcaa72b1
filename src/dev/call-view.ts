/**
 * What the terminal shows of calls:
 *
 *   hello │ what it printed
 *   POST /worker/runsync 200 FAILED in 41 ms (queue 25, boot 9, import 12, exec 3)
 *     error[ValueError]: no such colour
 *       --> worker.py:7:5
 */
import path from "node:path";
import { formatDiagnostic } from "../build/diagnostics.ts";
import { type LogLine, withoutTracebacks } from "../client/logs.ts";
import { timingText } from "../client/timing-text.ts";
import { failureLine } from "../domain/job.ts";
import { plainTextIfAny } from "../lib/plain-text.ts";
import type { Screen } from "./screen.ts";

export interface ShownCall {
  readonly method: string;
  /** As the caller sent it. */
  readonly url: string;
  /** "stopped": this server ended before there was an answer. */
  readonly status: number | "stopped";
  readonly ms: number;
  /** Of the answer: the header `Server-Timing`. */
  readonly timing: string | undefined;
  /** State and error of the job in the answer; undefined for other answers. */
  readonly job: { readonly status: string; readonly error?: string } | undefined;
  /** Why this server itself refused. */
  readonly problem?: string | undefined;
}

export class CallView {
  readonly #screen: Screen;
  readonly #projectDir: string;
  readonly #isPrinted = withoutTracebacks();

  constructor(screen: Screen, projectDir: string) {
    this.#screen = screen;
    this.#projectDir = projectDir;
  }

  line(name: string, line: LogLine): void {
    if (!this.#isPrinted(line)) return;
    const { stream, text } = line;
    const { dim, yellow, cyan } = this.#screen.colors;
    const paint = stream === "stderr" ? yellow : stream === "progress" ? cyan : (plain: string) => plain;
    this.#screen.out(`${dim(`${name} ${stream === "progress" ? "»" : "│"}`)} ${paint(text)}`);
  }

  call({ method, url, status, ms, timing, job, problem }: ShownCall): void {
    const { bold, green, red, yellow, dim } = this.#screen.colors;
    if (status === "stopped") {
      this.#screen.out(`${bold(`${method} ${url}`)} ${yellow("stopped")} after ${Math.round(ms)} ms: svc run ends`);
      return;
    }
    const failed = job !== undefined && (job.status === "FAILED" || job.status === "TIMED_OUT");
    const paint = status >= 500 || failed ? red : status >= 400 ? yellow : green;
    const state = job === undefined || job.status === "COMPLETED" ? "" : ` ${job.status}`;
    const parts = timing === undefined ? "" : ` ${dim(`(${timingText(timing)})`)}`;
    this.#screen.out(`${bold(`${method} ${url}`)} ${paint(`${status}${state}`)} in ${Math.round(ms)} ms${parts}`);
    if (problem !== undefined) this.#screen.out(problem.replace(/^/gm, "  "));
    if (job?.error !== undefined && failed) this.#screen.out(this.#failure(job.error).replace(/^/gm, "  "));
  }

  /** The place in the user's file, then the traceback. */
  #failure(error: string): string {
    const failure = parsed(error);
    if (failure === undefined) return error;
    const { error_type: type = "Error", error_message: message = "", error_traceback: traceback = "" } = failure;
    const place = this.#placeIn(traceback);
    // Where no frame is the user's, the traceback may say no more than the message does.
    if (place === undefined)
      return traceback.includes(message) ? traceback.trimEnd() : `${failureLine(type, message)}\n${traceback}`;
    const words = message.startsWith(`${type}: `) ? message.slice(type.length + 2) : message;
    const diagnostic = { severity: "error" as const, rule: type, message: words, help: "", ...place };
    const frame = formatDiagnostic(diagnostic, this.#screen.colors.isColorSupported);
    const calls = traceback.match(/^\s+File "/gm)?.length ?? 0;
    return calls > 1 ? `${frame}\n${this.#screen.colors.dim(traceback.trimEnd())}` : frame;
  }

  /** The innermost line of the traceback that stands in a file of the project. */
  #placeIn(
    traceback: string,
  ): { file: string; line: number; column: number; source: string; length: number } | undefined {
    for (const match of [...traceback.matchAll(/^\s*File "([^"]+)", line (\d+)/gm)].reverse()) {
      const file = match[1]!;
      const line = Number(match[2]);
      // A traceback may say anything.
      const inside = path.normalize(file);
      if (path.isAbsolute(inside) || inside.startsWith("..")) continue;
      const source = plainTextIfAny(path.join(this.#projectDir, inside))?.split("\n")[line - 1];
      if (source === undefined) continue;
      const indent = source.length - source.trimStart().length;
      return { file, line, column: indent + 1, source, length: Math.max(1, source.trim().length) };
    }
    return undefined;
  }
}

interface Failure {
  readonly error_type?: string;
  readonly error_message?: string;
  readonly error_traceback?: string;
}

function parsed(error: string): Failure | undefined {
  try {
    const value: unknown = JSON.parse(error);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
