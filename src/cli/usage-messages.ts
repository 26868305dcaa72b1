/** How wrong use of the command line is worded. The parser finds it; the words, and the next command, are ours. */
import { ArgumentScannerError, formatMessageForArgumentScannerError, type RouteMap } from "@stricli/core";
import { nearest } from "../domain/names.ts";
import type { CliContext } from "./context.ts";

type Root = RouteMap<CliContext>;

/** "There is no flag --forse. Did you mean --force?" */
export function argumentMessage(error: unknown): string {
  return error instanceof ArgumentScannerError
    ? formatMessageForArgumentScannerError(error, argumentMessages)
    : `The arguments cannot be read: ${error instanceof Error ? error.message : String(error)}.`;
}

export function unknownCommandMessage(root: Root, argv: readonly string[], input: string): string {
  const { routes } = commandPath(root, argv);
  const close = nearest(input, routes);
  const hint = close.length === 0 ? "" : ` Did you mean ${close.join(" or ")}?`;
  return `Unknown command "${input}".${hint}`;
}

/** "svc platform start": the longest known start of what was typed. */
export function typedCommand(root: Root, argv: readonly string[]): string {
  return ["svc", ...commandPath(root, argv).words].join(" ");
}

function commandPath(root: Root, argv: readonly string[]): { words: string[]; routes: string[] } {
  const words: string[] = [];
  let routes: Root | undefined = root;
  for (const word of argv) {
    const target: ReturnType<Root["getRoutingTargetForInput"]> = routes?.getRoutingTargetForInput(word);
    if (target === undefined) break;
    words.push(word);
    routes = "getAllEntries" in target ? target : undefined;
  }
  return { words, routes: routes?.getAllEntries().map((entry) => entry.name.original) ?? [] };
}

const argumentMessages: Parameters<typeof formatMessageForArgumentScannerError>[1] = {
  FlagNotFoundError: ({ input, corrections }) =>
    corrections.length === 0
      ? `There is no flag --${input}.`
      : `There is no flag --${input}. Did you mean ${[...new Set(corrections.map(flagName))].join(" or ")}?`,
  AliasNotFoundError: ({ input }) => `There is no flag -${input}.`,
  ArgumentParseError: ({ externalFlagNameOrPlaceholder: name, input, exception }) =>
    `${name === name.toUpperCase() ? name : flagName(name)} cannot be "${input}": ${(exception as Error).message}.`,
  EnumValidationError: ({ externalFlagName, input, values }) =>
    `${flagName(externalFlagName)} cannot be "${input}": it is ${values.join(" or ")}.`,
  UnsatisfiedPositionalError: ({ placeholder }) => `${placeholder} is missing.`,
  UnsatisfiedFlagError: ({ externalFlagName }) => `${flagName(externalFlagName)} needs a value.`,
  UnexpectedPositionalError: ({ input }) => `"${input}" is one argument too many.`,
  UnexpectedFlagError: ({ externalFlagName, input }) => `${flagName(externalFlagName)} is given twice ("${input}").`,
};

/** "noDeps" → "--no-deps" */
function flagName(name: string): string {
  return `--${name.replace(/^--/, "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
