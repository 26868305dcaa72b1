/** The words behind an endpoint's name: `'{"json"}'`, `@file`, `-` for stdin, or `key=value …`. */
import { readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { SvcError } from "../../domain/errors.ts";
import type { ManifestParameter } from "../../domain/manifest.ts";

/** JSON, or the bytes of a file that holds none. */
export type CallInput = { readonly json: unknown } | { readonly bytes: Uint8Array };

/** Throws USAGE for words that are none of the four, NOT_FOUND for a file that cannot be read. */
export async function callInput(
  words: readonly string[],
  parameters: readonly ManifestParameter[],
): Promise<CallInput | undefined> {
  const [first, ...others] = words;
  if (first === undefined) return undefined;
  if (words.every((word) => PAIR.test(word))) {
    return { json: Object.fromEntries(words.map((word) => pairOf(word, parameters))) };
  }
  if (others.length > 0) throw notUnderstood(words.find((word) => !PAIR.test(word))!);
  if (first === "-") return contentOf(await buffer(process.stdin));
  if (first.startsWith("@")) return contentOf(await fileAt(first.slice(1)));
  try {
    return { json: JSON.parse(first) };
  } catch {
    throw notUnderstood(first);
  }
}

/** The arguments of a function by name. Throws USAGE. */
export function namedArguments(input: CallInput | undefined): Record<string, unknown> {
  if (input === undefined) return {};
  const value = "json" in input ? input.json : undefined;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new SvcError("USAGE", "The input is no JSON object of arguments by name.", { help: FORMS });
}

const PAIR = /^[\p{L}_][\p{L}\p{N}_-]*=/u;
const FORMS = `Give '{"name": "value"}', name=value, @FILE or - for stdin.`;

function notUnderstood(word: string): SvcError {
  const isJson = /^[[{"]/.test(word);
  const problem = isJson ? "is no valid JSON" : "is no input";
  return new SvcError("USAGE", `${JSON.stringify(word.slice(0, 80))} ${problem}.`, { help: FORMS });
}

/** What a shell gives is text: it stays so where the parameter is a text, else it is read as JSON where it is some. */
function pairOf(word: string, parameters: readonly ManifestParameter[]): [name: string, value: unknown] {
  const at = word.indexOf("=");
  const name = word.slice(0, at);
  const text = word.slice(at + 1);
  const parameter = parameters.find((each) => each.name === name);
  if (parameter?.schema?.type === "string") return [name, text];
  try {
    return [name, JSON.parse(text)];
  } catch {
    return [name, text];
  }
}

async function fileAt(path: string): Promise<Uint8Array> {
  return readFile(path).catch((error: Error) => {
    throw new SvcError("NOT_FOUND", `The input cannot be read: ${error.message}.`, { where: path });
  });
}

function contentOf(bytes: Uint8Array): CallInput {
  try {
    return { json: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch {
    return { bytes };
  }
}
