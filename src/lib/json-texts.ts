/**
 * Long texts in the bytes of JSON, left out before it is parsed: of 10 MB nobody wants two strings of 10 MB, and the memory that
 * they take is collected late. What remains is JSON exactly when the whole is.
 */
import type { Span } from "./json-span.ts";

const BACKSLASH = 0x5c;
const LOW = 0x01010101;
const HIGH = 0x80808080;
const SPACES = 0x20202020;
const BACKSLASHES = 0x5c5c5c5c;
const ESCAPED = new Set(Buffer.from('"\\/bfnrt'));
const U = 0x75;

/** The text of `json`, which is UTF-8, with `""` for those of `texts` (with their quotes, in order) that are as the grammar wants them. */
export function withoutTexts(json: Buffer, texts: readonly Span[]): string {
  let shortened = "";
  let from = 0;
  for (const { start, end } of texts) {
    if (!isText(json, start + 1, end - 1)) continue;
    shortened += json.toString("utf8", from, start + 1);
    from = end - 1;
  }
  return shortened + json.toString("utf8", from);
}

/** No control characters between the quotes, and no escapes that there are not. Reads four bytes at a time. */
function isText(json: Buffer, start: number, end: number): boolean {
  const offset = json.byteOffset;
  const base = (offset + start + 3) & ~3;
  const words = new Uint32Array(json.buffer, base, Math.max(0, (offset + end - base) >> 2));
  let at = start;
  while (at < end) {
    if (((offset + at) & 3) === 0) {
      let word = (offset + at - base) >> 2;
      while (word < words.length && isPlain(words[word]!)) word++;
      at = base + 4 * word - offset;
      if (at === end) return true;
    }
    const byte = json[at]!;
    if (byte < 0x20) return false;
    if (byte === BACKSLASH) at = escapeEnd(json, at);
    else at++;
  }
  return at === end;
}

/** Of four bytes none is below 0x20 or a backslash. It may say so of one too many. */
function isPlain(word: number): boolean {
  const backslash = word ^ BACKSLASHES;
  return ((((word - SPACES) & ~word) | ((backslash - LOW) & ~backslash)) & HIGH) === 0;
}

/** Past everything when it is none. */
function escapeEnd(json: Buffer, at: number): number {
  const letter = json[at + 1]!;
  if (ESCAPED.has(letter)) return at + 2;
  const isCode = letter === U && /^[0-9a-fA-F]{4}$/.test(json.toString("latin1", at + 2, at + 6));
  return isCode ? at + 6 : Number.POSITIVE_INFINITY;
}
