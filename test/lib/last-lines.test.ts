import assert from "node:assert/strict";
import { finished } from "node:stream/promises";
import { test } from "node:test";
import { LastLines } from "../../src/lib/last-lines.ts";
import { wholeLines } from "../../src/lib/whole-lines.ts";

test("Pieces become lines, without colours; the last ones are kept, and long ones cut", () => {
  const told: string[] = [];
  const printed = new LastLines(3, (line) => told.push(line));
  for (const piece of [
    "one\ntw",
    "o\r\n\n",
    "\u001b[91mE\u001b[0m",
    "\u001b[91m: no",
    " such\u001b[0m",
    "\n",
    "x".repeat(2000),
  ])
    printed.add(piece);
  assert.deepEqual(printed.lines, ["one", "two", "E: no such"]);
  printed.end();
  printed.end();
  assert.deepEqual(printed.lines, ["two", "E: no such", "x".repeat(500)]);
  assert.deepEqual(told, ["one", "two", "E: no such", "x".repeat(500)]);
});

test("Bytes become whole lines wherever their pieces end; what has no end yet waits for it, or for the stream's", async () => {
  const passed: string[] = [];
  const lines = wholeLines(8, (text) => passed.push(text));
  const bytes = Buffer.from("\nzażółć\nlast");
  for (const byte of bytes) lines.write(Buffer.of(byte));
  assert.deepEqual(passed, ["", "zażółć"]);
  lines.write("\nlonger than that");
  assert.deepEqual(passed.slice(2), ["last", "longer than that"]);
  lines.write(bytes);
  lines.end();
  await finished(lines);
  assert.deepEqual(passed.slice(4), ["\nzażółć", "last"]);
});
