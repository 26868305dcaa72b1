import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readSecretKey } from "../../src/server/secret-key.ts";

test("the key of the secrets is made once, for its owner's eyes only, and a damaged one is not replaced", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-secret-key-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const key = readSecretKey(dir);
  assert.equal(key.length, 32);
  assert.deepEqual(readSecretKey(dir), key);
  assert.deepEqual(readdirSync(dir), ["secret.key"]);
  assert.equal(statSync(join(dir, "secret.key")).mode & 0o777, 0o600);
  writeFileSync(join(dir, "secret.key"), "");
  assert.throws(() => readSecretKey(dir), { code: "DATA_DIRECTORY", help: /backup/ });
});
