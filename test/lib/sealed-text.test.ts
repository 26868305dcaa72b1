import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";

const box = new SealedText(randomBytes(SEAL_KEY_BYTES));

test("what is sealed opens with the same key and label, and is never sealed alike twice", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.string(), (text, label) => {
      assert.equal(box.open(box.seal(text, label), label), text);
      assert.notEqual(box.seal(text, label), box.seal(text, label));
    }),
    { numRuns: 50 },
  );
});

test("another key, another label, a changed byte or a short tag do not open", () => {
  const sealed = box.seal("value", "staging/TOKEN");
  assert.throws(() => box.open(sealed, "production/TOKEN"));
  assert.throws(() => new SealedText(randomBytes(SEAL_KEY_BYTES)).open(sealed, "staging/TOKEN"));
  const [version, nonce, tag, text] = sealed.split(".") as [string, string, string, string];
  for (const broken of [
    [version, nonce, tag, `${text[0] === "A" ? "B" : "A"}${text.slice(1)}`],
    [version, nonce, tag.slice(0, 6), text],
    [version, "", tag, text],
    ["v2", nonce, tag, text],
    [""],
  ]) {
    assert.throws(() => box.open(broken.join("."), "staging/TOKEN"), broken.join("."));
  }
});

test("older keys open, the first seals; what it has sealed stays as it is", () => {
  const [one, two] = [randomBytes(SEAL_KEY_BYTES), randomBytes(SEAL_KEY_BYTES)];
  const old = new SealedText(one);
  const both = new SealedText(two, one);
  const sealed = old.seal("value", "label");
  assert.equal(both.open(sealed, "label"), "value");
  const renewed = both.sealedAnew(sealed, "label")!;
  assert.equal(new SealedText(two).open(renewed, "label"), "value");
  assert.throws(() => old.open(renewed, "label"));
  assert.equal(both.sealedAnew(renewed, "label"), undefined);
  assert.throws(() => both.sealedAnew(box.seal("value", "label"), "label"), "of a third key");
  assert.deepEqual([old.hasOlderKeys, both.hasOlderKeys], [false, true]);
});
