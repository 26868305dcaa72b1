import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isValidName, nearest, suggestName } from "../../src/domain/names.ts";

test("Names are [a-z0-9][a-z0-9_-]{0,62}", () => {
  for (const name of ["a", "cpu_worker", "7-up", "a".repeat(63)]) assert.ok(isValidName(name), name);
  for (const name of ["", "A", "-a", "_a", "a b", "a/b", "ä", "a".repeat(64)]) assert.ok(!isValidName(name), name);
});

test("Whatever was typed, the suggestion is a valid name", () => {
  fc.assert(fc.property(fc.string(), (text) => assert.ok(isValidName(suggestName(text)))));
  assert.equal(suggestName("My App!"), "my-app");
});

test("The nearest candidates come first, and far ones not at all", () => {
  assert.deepEqual(nearest("worker", ["name", "workers", "gpu"]), ["workers"]);
  assert.deepEqual(nearest("zzzzzz", ["name", "workers"]), []);
});
