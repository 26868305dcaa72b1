/** Flags that several commands share, described once. */

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
