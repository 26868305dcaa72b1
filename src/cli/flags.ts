/** Flags and parameters that several commands share, described once. */
import { COMPLETION_MAX_MS } from "../domain/limits.ts";
import type { CliContext } from "./context.ts";

export const jsonFlag = {
  kind: "boolean",
  optional: true,
  brief: "Print JSON for programs",
  withNegated: false,
} as const;

export const appFlag = {
  kind: "parsed",
  parse: String,
  optional: true,
  placeholder: "NAME",
  brief: "App; default: the name of this directory",
} as const;

export const envFlag = {
  kind: "parsed",
  parse: String,
  optional: true,
  placeholder: "NAME",
  brief: "Environment; default: the only one there is",
} as const;

/** An endpoint's name as a positional parameter, completed by the shell; `others` are words that may stand in its place. */
export function endpointParameter<B extends string>(brief: B, others: readonly string[] = []) {
  async function proposeCompletions(this: CliContext, partial: string): Promise<string[]> {
    const { endpointNames } = await import("./endpoint-names.ts");
    const names = await endpointNames(this, COMPLETION_MAX_MS).catch(() => []);
    return [...others, ...names].filter((name) => name.startsWith(partial));
  }
  return { placeholder: "ENDPOINT_NAME", parse: String, brief, proposeCompletions } as const;
}

/** A switch that is off unless it is given. */
export function switchFlag<B extends string>(brief: B) {
  return { kind: "boolean", optional: true, brief, withNegated: false } as const;
}

/** A whole number from `min` to `max`. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isInteger(value) || value < min || value > max) {
      throw new Error(`a whole number from ${min} to ${max} is needed`);
    }
    return value;
  };
}

/** The help page's last part: each line is a command and what it does. */
export function withExamples(text: string, examples: readonly (readonly [command: string, meaning: string])[]): string {
  const width = Math.max(...examples.map(([command]) => command.length));
  return [
    text,
    "",
    "Examples:",
    ...examples.map(([command, meaning]) => `  ${command.padEnd(width)}  ${meaning}`),
  ].join("\n");
}
