/**
 * Where a text stops being JSON. Only read after JSON.parse refused it: its own messages often lack the place.
 */

export interface JsonError {
  readonly line: number;
  readonly column: number;
  /** "a value", "',' or '}'", … */
  readonly expected: string;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\r\n]*/y;
const WORD = /true|false|null/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** The first place where `text` breaks the grammar; undefined when it is JSON. Lines and columns count from 1. */
export function firstJsonError(text: string): JsonError | undefined {
  const open: ("{" | "[")[] = [];
  let at = skip(SPACE, text, 0);
  const fail = (expected: string, where = at): JsonError => ({ ...place(text, where), expected });

  for (;;) {
    // At the start of a value.
    const char = text[at];
    if (char === "{" || char === "[") {
      const close = char === "{" ? "}" : "]";
      at = skip(SPACE, text, at + 1);
      if (text[at] !== close) {
        open.push(char);
        if (char === "[") continue;
        const key = pastKey(text, at);
        if (typeof key !== "number") return fail(key.expected === "" ? "a key in quotes or '}'" : key.expected, key.at);
        at = key;
        continue;
      }
      at++;
    } else {
      const end = pastScalar(text, at);
      if (typeof end !== "number") return fail(end.expected, end.at);
      at = end;
    }
    // Behind a value.
    for (;;) {
      at = skip(SPACE, text, at);
      const container = open.at(-1);
      if (container === undefined) return at === text.length ? undefined : fail("the end of the text");
      const close = container === "{" ? "}" : "]";
      if (text[at] !== close) break;
      open.pop();
      at++;
    }
    if (text[at] !== ",") return fail(open.at(-1) === "{" ? "',' or '}'" : "',' or ']'");
    at = skip(SPACE, text, at + 1);
    if (open.at(-1) === "[") continue;
    const key = pastKey(text, at);
    if (typeof key !== "number") return fail(key.expected === "" ? "a key in quotes" : key.expected, key.at);
    at = key;
  }
}

interface Wrong {
  readonly at: number;
  readonly expected: string;
}

/** The start of the value that belongs to the key at `at`; `expected` "" when there is no key. */
function pastKey(text: string, at: number): number | Wrong {
  if (text[at] !== '"') return { at, expected: "" };
  const end = pastString(text, at);
  if (typeof end !== "number") return end;
  const colon = skip(SPACE, text, end);
  return text[colon] === ":" ? skip(SPACE, text, colon + 1) : { at: colon, expected: "':'" };
}

function pastScalar(text: string, at: number): number | Wrong {
  if (text[at] === '"') return pastString(text, at);
  const end = Math.max(skip(WORD, text, at), skip(NUMBER, text, at));
  return end > at ? end : { at, expected: "a value" };
}

function pastString(text: string, start: number): number | Wrong {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) return { at, expected: "an escaped control character (\\n, \\t, \\u00…)" };
    if (code !== 0x5c) continue;
    const end = skip(ESCAPE, text, at);
    if (end === at) return { at, expected: 'a known escape (\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX)' };
    at = end - 1;
  }
  return { at: text.length, expected: "the closing quote of a string" };
}

/** Where the match of a sticky pattern at `at` ends; `at` when there is none. */
function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

function place(text: string, at: number): { line: number; column: number } {
  let line = 1;
  let lineStart = 0;
  for (let next = text.indexOf("\n"); next !== -1 && next < at; next = text.indexOf("\n", next + 1)) {
    line++;
    lineStart = next + 1;
  }
  return { line, column: at - lineStart + 1 };
}
