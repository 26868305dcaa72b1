import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { randomId } from "../../src/control-plane/ids.ts";

test("an endpoint's id is 14 letters and digits, fit for a DNS label", () => {
  const ids = new Set(Array.from({ length: 2000 }, () => randomId(randomBytes)));
  assert.equal(ids.size, 2000);
  for (const id of ids) assert.match(id, /^[a-z][a-z0-9]{13}$/);
});

test("bytes that would favour some letters are not used", () => {
  const given = [
    [255, 252, 26, 0],
    [251, 1],
  ].map((bytes) => Uint8Array.from(bytes));
  // 255 and 252 are unfair, 26 is a digit where a letter must stand, 251 is the last fair byte.
  assert.equal(
    randomId(() => given.shift()!, 3),
    "a9b",
  );
});
