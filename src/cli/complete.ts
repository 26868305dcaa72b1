/** `svc __complete WORD...`: the answer to a shell's Tab. Whatever goes wrong, it says nothing: a prompt is no place for it. */
import { type Application, proposeCompletions, type StricliDynamicCommandContext } from "@stricli/core";
import type { CliContext } from "./context.ts";

/** Lines of completion, tab, description for the last of `words`, which is still being typed ("" when it is new). */
export async function completionLines(
  application: Application<CliContext>,
  words: readonly string[],
  context: StricliDynamicCommandContext<CliContext>,
): Promise<string> {
  const found = await proposeCompletions(application, words, context).catch(() => []);
  // Flags only behind a dash: they would stand in the way of file names, and an only one would be typed unasked.
  const useful = found.filter(({ kind }) => kind !== "argument:flag" || words.at(-1)?.startsWith("-"));
  return useful
    .filter(({ completion }) => completion !== "--")
    .map(({ completion, brief }) => `${completion}\t${brief.split("\n")[0]}\n`)
    .join("");
}
