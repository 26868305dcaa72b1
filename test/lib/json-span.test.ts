import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { topLevelSpan } from "../../src/lib/json-span.ts";

/** JSON text of any value, with white space in every place where the grammar allows it. */
const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/);

function spaced(value: unknown): fc.Arbitrary<string> {
  return fc.array(space, { minLength: 8, maxLength: 8 }).map((spaces) => {
    let turn = 0;
    const gap = () => spaces[turn++ % spaces.length]!;
    const write = (v: unknown): string => {
      if (Array.isArray(v)) return `[${gap()}${v.map(write).join(`${gap()},${gap()}`)}${gap()}]`;
      if (typeof v === "object" && v !== null) {
        const members = Object.entries(v).map(
          ([key, member]) => `${JSON.stringify(key)}${gap()}:${gap()}${write(member)}`,
        );
        return `{${gap()}${members.join(`${gap()},${gap()}`)}${gap()}}`;
      }
      return JSON.stringify(v);
    };
    return `${gap()}${write(value)}${gap()}`;
  });
}

const document = fc
  .dictionary(fc.oneof(fc.constant("input"), fc.string()), fc.jsonValue())
  .filter((value) => !Object.hasOwn(value, "__proto__"))
  .chain((value) => spaced(value).map((text) => ({ value: JSON.parse(JSON.stringify(value)), text })));

test("the span of every key holds the text of the value that JSON.parse finds there", () => {
  fc.assert(
    fc.property(document, ({ value, text }) => {
      const bytes = Buffer.from(text);
      for (const key of Object.keys(value)) {
        const span = topLevelSpan(bytes, key)!;
        assert.deepEqual(JSON.parse(bytes.toString("utf8", span.start, span.end)), value[key]);
      }
      if (!Object.hasOwn(value, "input")) assert.equal(topLevelSpan(bytes, "input"), undefined);
    }),
    { numRuns: 500 },
  );
});

const CASES: [title: string, text: string, expected: string | undefined][] = [
  ["of two equal keys the last counts", '{"input":{"a":1},"input":{"a":2}}', '{"a":2}'],
  ["a key may be written with escapes", String.raw`{"\u0069np\u0075t":{"a":1}}`, '{"a":1}'],
  ["a deeper key of the same name is not meant", '{"policy":{"input":{"no":1}},"input":{}}', "{}"],
  [
    "brackets and quotes in texts do not count",
    String.raw`{"x":"}]\"{","input":{"a":"}\\"},"y":1}`,
    String.raw`{"a":"}\\"}`,
  ],
  ["a number ends where it ends", '{"input":-1.5e3}', "-1.5e3"],
  ["a key that merely begins alike is another", '{"inputs":{},"inpu":1}', undefined],
  ["bytes beyond ASCII are kept", '{"ü":"é","input":{"ß":"日本"}}', '{"ß":"日本"}'],
  ["an empty object has no keys", " { } ", undefined],
];

for (const [title, text, expected] of CASES) {
  test(title, () => {
    const bytes = Buffer.from(text);
    const span = topLevelSpan(bytes, "input");
    assert.equal(span && bytes.toString("utf8", span.start, span.end), expected);
    if (expected !== undefined) assert.deepEqual(JSON.parse(text).input, JSON.parse(expected));
  });
}

test("deep nesting needs no stack", () => {
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  const span = topLevelSpan(Buffer.from(`{"input":${deep}}`), "input")!;
  assert.equal(span.end - span.start, deep.length);
});

test("long texts end where JSON.parse has their end, whatever is escaped in them", () => {
  const part = fc.oneof(
    fc.constantFrom('"', "\\", '\\"', '"\\\\', "}"),
    fc.nat(700).map((length) => "x".repeat(length)),
  );
  const long = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(long, long, (text, behind) => {
      const bytes = Buffer.from(JSON.stringify({ input: { text }, behind }));
      const span = topLevelSpan(bytes, "input")!;
      assert.deepEqual(JSON.parse(bytes.toString("utf8", span.start, span.end)), { text });
    }),
    { numRuns: 500 },
  );
});
