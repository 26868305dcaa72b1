/**
 * Where the value of a top-level key lies in the bytes of a JSON object, so that it can be passed on as it came.
 * The text must be valid JSON and an object. A key that stands twice: the last one, as JSON.parse has it.
 */

export interface Span {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
/** To ask the runtime costs as much as to read so many bytes. */
const SHORT_BYTES = 256;
/** A text that is longer is a long one. */
const LONG_BYTES = 64 * 1024;

/** Of bytes that turn out to be no JSON it may be anything. Long texts on the way, in the value or not, are put to `longTexts`. */
export function topLevelSpan(json: Buffer, key: string, longTexts: Span[] = []): Span | undefined {
  let span: Span | undefined;
  let at = skipSpace(json, 0) + 1; // behind "{"
  for (;;) {
    at = skipSpace(json, at);
    if (at >= json.length || json[at] === CLOSE_BRACE) return span;
    const keyEnd = stringEnd(json, at);
    const matches = keyIs(json, at, keyEnd, key);
    const start = skipSpace(json, skipSpace(json, keyEnd) + 1); // behind ":"
    const end = valueEnd(json, start, longTexts);
    if (matches) span = { start, end };
    at = skipSpace(json, end);
    if (json[at] === COMMA) at++;
  }
}

function keyIs(json: Buffer, start: number, end: number, key: string): boolean {
  const text = json.toString("utf8", start + 1, end - 1);
  if (text === key || !text.includes("\\")) return text === key;
  try {
    return JSON.parse(`"${text}"`) === key;
  } catch {
    return false; // It is no JSON.
  }
}

function skipSpace(json: Buffer, from: number): number {
  let at = from;
  for (let byte = json[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; byte = json[at]) at++;
  return at;
}

/** `start` is at the opening quote; the result is behind the closing one. Short texts are read here, long ones searched by the runtime. */
function stringEnd(json: Buffer, start: number): number {
  let at = start + 1;
  while (at < json.length) {
    for (const near = Math.min(json.length, at + SHORT_BYTES); at < near; at++) {
      const byte = json[at];
      if (byte === QUOTE) return at + 1;
      if (byte === BACKSLASH) at++;
    }
    const quote = json.indexOf(QUOTE, at);
    if (quote === -1) break;
    let slashes = 0;
    while (quote - slashes > at && json[quote - slashes - 1] === BACKSLASH) slashes++;
    at = quote + 1;
    if (slashes % 2 === 0) return at;
  }
  return json.length;
}

function valueEnd(json: Buffer, start: number, longTexts: Span[]): number {
  const first = json[start];
  if (first === QUOTE) return textEnd(json, start, longTexts);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return nestedEnd(json, start, longTexts);
  let at = start; // number, true, false, null
  for (; at < json.length; at++) {
    const byte = json[at]!;
    if (byte === COMMA || byte === CLOSE_BRACE || byte <= 0x20) break;
  }
  return at;
}

function textEnd(json: Buffer, start: number, longTexts: Span[]): number {
  const end = stringEnd(json, start);
  if (end - start > LONG_BYTES) longTexts.push({ start, end });
  return end;
}

function nestedEnd(json: Buffer, start: number, longTexts: Span[]): number {
  let depth = 0;
  for (let at = start; at < json.length; at++) {
    const byte = json[at];
    if (byte === QUOTE) at = textEnd(json, at, longTexts) - 1;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return at + 1;
  }
  return json.length;
}
