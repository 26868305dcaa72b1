/** What the terminal is told about everything but calls: builds, deploys, the platform. */
import { BuildProblems, formatDiagnostic } from "../build/diagnostics.ts";
import type { EndpointRecord } from "../client/records.ts";
import { SvcError } from "../domain/errors.ts";
import type { LocalRoute } from "./local-routes.ts";
import { routeChanges, showRoutes } from "./route-table.ts";
import type { Screen } from "./screen.ts";

export class Narrator {
  readonly #screen: Screen;
  readonly #lastProgress = new Map<string, string>();

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  platformLost(url: string): void {
    this.#screen.warn(`The platform at ${url} does not answer. Looking for it…`);
  }

  platformBack(url: string): void {
    this.#screen.note(`The platform is back at ${url}.`);
  }

  /** The same words are not repeated. */
  progress(name: string, text: string): void {
    if (this.#lastProgress.get(name) !== text) this.#screen.note(name === "" ? text : `${name}: ${text}`);
    this.#lastProgress.set(name, text);
  }

  live(name: string, record: EndpointRecord, change: "created" | "updated", ms: number): void {
    const words = change === "created" ? `is live as ${record.name}` : "has the new code";
    this.#screen.note(`${name} ${words} (${Math.round(ms)} ms)`);
  }

  built(before: readonly LocalRoute[], after: readonly LocalRoute[]): void {
    const changes = routeChanges(before, after);
    for (const change of changes) this.#screen.note(change);
    if (changes.length > 0) void showRoutes(this.#screen, after);
  }

  broken(error: unknown): void {
    const { errColors } = this.#screen;
    const problem = problemText(error, errColors.isColorSupported);
    this.#screen.note(`${problem}\n${errColors.dim("The code before this save goes on answering.")}`);
  }

  /** The next call tries again, and its caller is told. */
  notUpdated(error: unknown): void {
    this.#screen.warn(problemText(error, false));
  }
}

export function problemText(error: unknown, color: boolean): string {
  if (error instanceof BuildProblems && error.diagnostics.length > 0)
    return error.diagnostics.map((diagnostic) => formatDiagnostic(diagnostic, color)).join("\n\n");
  if (error instanceof SvcError) return [error.message, error.help ?? ""].join("\n").trim();
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
