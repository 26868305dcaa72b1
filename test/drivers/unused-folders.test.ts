import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { FolderUse } from "../../src/drivers/unused-folders.ts";

test("Only folders that are not kept, are old, and were not looked for go, with what a killed platform left", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-folders-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const now = Date.now();
  for (const name of ["kept", "looked-for", "unused", "new", ".install-killed"]) {
    mkdirSync(path.join(dir, name, "deep"), { recursive: true });
    writeFileSync(path.join(dir, name, "deep", "file"), "");
    const time = new Date(name === "new" ? now : now - 100_000);
    utimesSync(path.join(dir, name), time, time);
  }
  const use = new FolderUse(dir);
  use.note("looked-for");
  assert.deepEqual((await use.removeUnused(new Set(["kept"]), now - 50_000)).sort(), [".install-killed", "unused"]);
  assert.deepEqual(readdirSync(dir).sort(), ["kept", "looked-for", "new"]);
  assert.deepEqual(await new FolderUse(path.join(dir, "missing")).removeUnused(new Set(), now), []);
});
