import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { makePrivateFile } from "../../src/lib/private-file.ts";

test("a private file is made once, for its owner's eyes only, and leaves no draft", (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-private-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = path.join(dir, "key");
  for (const content of ["first", "second"]) makePrivateFile(file, content);
  assert.equal(readFileSync(file, "utf8"), "first");
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(dir), ["key"]);
  assert.throws(() => makePrivateFile(path.join(dir, "missing/key"), "x"), { code: "ENOENT" });
});
