import { ERROR_HELP } from "../../domain/error-help.ts";
import { ERROR_CATALOGUE, type ErrorCode } from "../../domain/errors.ts";
import { command } from "../command.ts";
import { wrapped } from "../help-page.ts";

/** Asked for by name it is answered before any command runs: this one is only listed. */
export const helpCommand = command({
  brief: "Explain a command or an error",
  text: "Explains a command, as COMMAND --help does, or an error by its code.",
  examples: [
    ["svc help deploy", "What svc deploy does, with examples"],
    ["svc help platform start", "A command of a group"],
    ["svc help STORAGE_FULL", "An error: why it comes, what to do"],
  ],
  words: { placeholder: "COMMAND", brief: "Command", optional: true },
  run() {},
});

/** Why an error comes and what to do, in lines of at most `columns`. */
export function errorHelp(code: ErrorCode, columns: number): string {
  const { title, status } = ERROR_CATALOGUE[code];
  const { cause, remedy } = ERROR_HELP[code];
  const plain = (text: string) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");
  const lines = [cause, remedy].flatMap((text) => wrapped(plain(text), Math.min(columns, 100)));
  return [`${code} (HTTP ${status}): ${title}`, "", ...lines].join("\n");
}
