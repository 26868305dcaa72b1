import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { makeFolder, makeFolderAside } from "../../src/lib/make-folder.ts";
import { temporaryFolder } from "../build/project.ts";

for (const make of [makeFolder, makeFolderAside]) {
  test(`${make.name}: a folder and those above it, what is there already, and what cannot be made`, async (t) => {
    const dir = temporaryFolder(t);
    const folder = path.join(dir, "a", "b", "c");
    await make(folder);
    await make(folder);
    assert.ok(existsSync(folder));
    await Promise.all([1, 2, 3, 4].map(async () => make(path.join(dir, "d", "e", "f"))));
    writeFileSync(path.join(dir, "file"), "");
    await assert.rejects(async () => make(path.join(dir, "file", "a", "b")), { code: /^(ENOTDIR|EEXIST)$/ });
    await assert.rejects(async () => make("/proc/nope/a"), { code: "ENOENT", path: "/proc/nope" });
  });
}
