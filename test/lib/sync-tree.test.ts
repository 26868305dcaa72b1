import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { SYNCS_AT_ONCE } from "../../src/domain/limits.ts";
import { syncTree } from "../../src/lib/sync-tree.ts";

test("a folder with many files, folders and links that lead nowhere is synced; one that is not there is an error", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-sync-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  for (let n = 0; n < 3 * SYNCS_AT_ONCE; n++) {
    mkdirSync(path.join(dir, `f${n % 5}`, "deep"), { recursive: true });
    writeFileSync(path.join(dir, `f${n % 5}`, "deep", String(n)), "x", { mode: 0o444 });
  }
  symlinkSync("/nowhere", path.join(dir, "link"));
  await syncTree(dir, SYNCS_AT_ONCE);
  await assert.rejects(syncTree(path.join(dir, "missing"), SYNCS_AT_ONCE), { code: "ENOENT" });
});
