import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { firstJsonError } from "../../src/gateway/json-error.ts";

const CASES: [text: string, line: number, column: number, expected: RegExp][] = [
  ['{"input": {"a": 1,}}', 1, 19, /a key in quotes/],
  ["hello", 1, 1, /a value/],
  ['{"input": {"a" 1}}', 1, 16, /':'/],
  ['{\n  "input": {\n    "a": 1\n    "b": 2\n  }\n}', 4, 5, /',' or '}'/],
  ['{"input": {"a": "x}}', 1, 21, /closing quote/],
  ['{"input": {"a": "\\q"}}', 1, 18, /known escape/],
  ['{"input": {"a": "x\ny"}}', 1, 19, /control character/],
  ['{"input": [1 2]}', 1, 14, /',' or ']'/],
  ['{"input": {}} trailing', 1, 15, /the end/],
  ["{'input': {}}", 1, 2, /a key in quotes or '}'/],
  ['{"input": NaN}', 1, 11, /a value/],
  ["", 1, 1, /a value/],
];

for (const [text, line, column, expected] of CASES) {
  test(`the first fault of ${JSON.stringify(text)} is at ${line}:${column}`, () => {
    const error = firstJsonError(text)!;
    assert.deepEqual([error.line, error.column], [line, column]);
    assert.match(error.expected, expected);
  });
}

test("a text has a fault exactly when JSON.parse refuses it", () => {
  const damaged = fc
    .tuple(
      fc.json({ maxDepth: 3 }),
      fc.nat(),
      fc.constantFrom("", ",", '"', "}", "]", "1", "\\", "x", "\n", ":"),
      fc.boolean(),
    )
    .map(([text, at, piece, damage]) =>
      damage ? text.slice(0, at % (text.length + 1)) + piece + text.slice((at % (text.length + 1)) + 1) : text,
    );
  fc.assert(
    fc.property(damaged, (text) => {
      let parses = true;
      try {
        JSON.parse(text);
      } catch {
        parses = false;
      }
      assert.equal(firstJsonError(text) === undefined, parses, text);
    }),
    { numRuns: 3000 },
  );
});
