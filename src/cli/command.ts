/** A command as data: its words, its flags, and what it does. What several commands have in common is described once. */
import { buildCommand, buildRouteMap, type Command, type RouteMap } from "@stricli/core";
import { COMPLETION_MAX_MS } from "../domain/limits.ts";
import type { CliContext } from "./context.ts";
import type { Page, ShownFlag } from "./help-page.ts";

/** With its own page of help, and for a group those of its commands. */
export type Route = (Command<CliContext> | RouteMap<CliContext>) & {
  readonly page: Page;
  readonly commands?: Readonly<Record<string, Route>>;
};
type Examples = readonly (readonly [command: string, meaning: string])[];

interface Flag {
  readonly kind: "boolean" | "parsed" | "enum";
  readonly brief: string;
  readonly optional?: boolean;
  readonly placeholder?: string;
  readonly values?: readonly string[];
  readonly withNegated?: boolean;
  readonly hidden?: boolean;
}

interface Parameter {
  readonly placeholder: string;
  readonly brief: string;
  readonly optional?: boolean;
  readonly parse?: (text: string) => string;
  readonly proposeCompletions?: (this: CliContext, partial: string) => readonly string[] | Promise<readonly string[]>;
}

type ValueOf<F> = F extends { kind: "boolean" }
  ? boolean
  : F extends { values: readonly (infer V)[] }
    ? V
    : F extends { parse: (text: string) => infer V }
      ? V
      : never;

/** What a command gets for its flags; one without `optional` has a default. */
export type FlagsOf<F> = {
  readonly [K in keyof F as F[K] extends { optional: true } ? never : K]: ValueOf<F[K]>;
} & { readonly [K in keyof F as F[K] extends { optional: true } ? K : never]?: ValueOf<F[K]> };

interface CommandSpec<F> {
  readonly brief: string;
  readonly text: string;
  readonly examples: Examples;
  readonly flags?: F;
  readonly aliases?: Readonly<Record<string, keyof F>>;
  readonly parameters?: readonly Parameter[];
  /** Instead of `parameters`: one word or more. */
  readonly words?: Parameter;
  run(this: CliContext, flags: FlagsOf<F>, ...parameters: string[]): void | Promise<void>;
}

export function command<const F extends Readonly<Record<string, Flag>> = Record<never, never>>({
  brief,
  text,
  examples,
  flags,
  aliases,
  parameters = [],
  words,
  run,
}: CommandSpec<F>): Route {
  const positional =
    words === undefined
      ? { kind: "tuple", parameters: parameters.map((each) => ({ parse: String, ...each })) }
      : { kind: "array", minimum: 1, parameter: { parse: String, ...words } };
  const built = buildCommand({
    func: run,
    parameters: { flags, aliases, positional },
    docs: { brief },
  } as unknown as Parameters<typeof buildCommand<object, [], CliContext>>[0]);
  const placed = words === undefined ? parameters : [words];
  const page = {
    brief,
    text,
    examples,
    words: placed.map(({ placeholder, optional }) => (optional ? `[${placeholder}]` : placeholder)),
    flags: shownFlags(flags ?? {}, aliases ?? {}),
  };
  return Object.assign(built, { page });
}

function shownFlags(
  flags: Readonly<Record<string, Flag>>,
  aliases: Readonly<Record<string, PropertyKey>>,
): ShownFlag[] {
  const letters = new Map(Object.entries(aliases).map(([letter, name]) => [String(name), letter]));
  const shown = Object.entries(flags).filter(([, { hidden }]) => !hidden);
  return shown.map(([key, { kind, brief, placeholder, values, withNegated }]) => {
    const name = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const negated = kind === "boolean" && withNegated !== false ? "[no-]" : "";
    const value = values?.join("|") ?? placeholder;
    const letter = letters.get(key);
    const long = `--${negated}${name}${value === undefined ? "" : ` ${value}`}`;
    return { names: `${letter === undefined ? "    " : `-${letter}, `}${long}`, brief };
  });
}

/** Commands below one word. */
export function group<R extends string>(
  brief: string,
  routes: Readonly<Record<R, Route>>,
  more: { readonly text?: string; readonly examples?: Examples; readonly defaultCommand?: NoInfer<R> } = {},
): Route {
  const { text = `${brief}.`, examples = [], defaultCommand } = more;
  const built = buildRouteMap<string, CliContext>({ routes, defaultCommand, docs: { brief } });
  const own = defaultCommand === undefined ? { words: [], flags: [] } : routes[defaultCommand].page;
  return Object.assign(built, { page: { ...own, brief, text, examples }, commands: routes });
}

/** A switch that is off unless it is given. */
export function switchFlag<B extends string>(brief: B) {
  return { kind: "boolean", optional: true, brief, withNegated: false } as const;
}

/** A flag with a value, read by `parse`. */
export function valueFlag<T = string>(
  placeholder: string,
  brief: string,
  parse: (text: string) => T = String as never,
) {
  return { kind: "parsed", parse, optional: true, placeholder, brief } as const;
}

export const jsonFlag = switchFlag("Print JSON for programs");
export const appFlag = valueFlag("NAME", "App; default: the name of this directory");
export const envFlag = valueFlag("NAME", "Environment; default: the only one there is");

/** An endpoint's name as a parameter, completed by the shell; `others` are words that may stand in its place. */
export function endpointParameter(brief: string, others: readonly string[] = []) {
  async function proposeCompletions(this: CliContext, partial: string): Promise<string[]> {
    const { endpointNames } = await import("./connect.ts");
    const names = await endpointNames(this, COMPLETION_MAX_MS).catch(() => []);
    return [...others, ...names].filter((name) => name.startsWith(partial));
  }
  return { placeholder: "ENDPOINT_NAME", brief, proposeCompletions };
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** "30d" → seconds. */
export function duration(text: string): number {
  const [, count, unit] = /^([1-9]\d{0,6})([smhd])$/.exec(text.trim()) ?? [];
  if (count === undefined) throw new Error("a time like 30d, 12h or 90m is needed");
  return Number(count) * UNIT_SECONDS[unit!]!;
}

/** "10m" ago, or a date or time as ISO 8601 has it: local, unless it says its zone → milliseconds since the epoch. */
export function pastTime(text: string): number {
  if (/^\d+[smhd]$/.test(text.trim())) return Date.now() - duration(text) * 1000;
  const clock = /^\d\d:\d\d(:\d\d)?$/.test(text) ? `${new Date().toLocaleDateString("sv")}T${text}` : text;
  const at = Date.parse(/^\d{4}-\d\d-\d\d$/.test(clock) ? `${clock}T00:00` : clock.replace(" ", "T"));
  if (Number.isNaN(at)) throw new Error("a time like 10m, 2h or 1d ago, 14:30 or 2026-11-22T14:30 is needed");
  return at;
}

/** One of these words. */
export function oneOf<const T extends string>(words: readonly T[]): (text: string) => T {
  return (text) => {
    const word = words.find((known) => known === text);
    if (word === undefined) throw new Error(`one of ${words.join(", ")} is needed`);
    return word;
  };
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
