import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Span, topLevelSpan } from "../../src/lib/json-span.ts";
import { withoutTexts } from "../../src/lib/json-texts.ts";

/** All texts in valid or broken JSON, as a lexer finds them: the long ones would be these. */
function textsOf(json: Buffer): Span[] {
  const texts: Span[] = [];
  for (const { index, 0: text } of json.toString("latin1").matchAll(/"(?:[^"\\]|\\[\s\S])*"/g)) {
    texts.push({ start: index, end: index + text.length });
  }
  return texts;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

test("what remains without its texts is JSON exactly when the whole is, whatever stands in them", () => {
  const part = fc.oneof(
    { weight: 6, arbitrary: fc.string() },
    fc.constantFrom(
      "\\",
      "\\n",
      "\\u00e9",
      "\\u00g9",
      "\\u12",
      "\\x",
      '\\"',
      "\n",
      "\t",
      "\u0000",
      "\u001f",
      " ",
      "é",
      "日本",
      "\u007f",
    ),
  );
  const text = fc.array(part, { maxLength: 12 }).map((parts) => `"${parts.join("").replaceAll(/(?<!\\)"/g, "")}"`);
  const document = fc
    .tuple(text, text, fc.constantFrom("", " ", ",", "}", '"'))
    .map(([a, b, c]) => `{${a}: [1, ${b}${c}]}`);
  fc.assert(
    fc.property(document, (json) => {
      const bytes = Buffer.from(json);
      assert.equal(isJson(withoutTexts(bytes, textsOf(bytes))), isJson(bytes.toString()));
    }),
    { numRuns: 3_000 },
  );
});

test("a control character or a wrong escape is seen at every place of a text, wherever its bytes lie in memory", () => {
  const memory = Buffer.alloc(64);
  for (let offset = 0; offset < 4; offset++) {
    for (let at = 0; at < 17; at++) {
      for (const wrong of ["\u0000", "\u001f", "\\", "\n"]) {
        const json = `"${"x".repeat(at)}${wrong}${"x".repeat(17 - at)}"`;
        const bytes = memory.subarray(offset, offset + memory.write(json, offset, "latin1"));
        assert.equal(withoutTexts(bytes, [{ start: 0, end: bytes.length }]), json);
        bytes[at + 1] = 0x7f;
        assert.equal(withoutTexts(bytes, [{ start: 0, end: bytes.length }]), '""');
      }
    }
  }
});

test("bytes that are no JSON are walked through to their end", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), fc.string(), (bytes, text) => {
      topLevelSpan(Buffer.from(bytes), "input");
      topLevelSpan(Buffer.from(`{${text}`), "input");
      topLevelSpan(Buffer.from(`{"\\${text}`), "input");
    }),
    { numRuns: 2_000 },
  );
});

test("many keys without a backslash cost what they are, not their number by the length of all", () => {
  const keys = Array.from({ length: 60_000 }, (_, n) => `"k${n}":1`);
  const json = Buffer.from(`{${keys.join(",")},"input":{}}`);
  const { start, end } = topLevelSpan(json, "input")!;
  assert.equal(json.toString("utf8", start, end), "{}");
});
