import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { artifactConformance } from "../conformance/artifacts.ts";

artifactConformance("disk", async () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-artifacts-"));
  return { store: await openDiskArtifactStore(dir), close: async () => rmSync(dir, { recursive: true }) };
});

test("what an interrupted upload left is cleared at start, what was stored stays", async () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-artifacts-"));
  try {
    const bytes = Buffer.from("layer");
    const digest = createHash("sha256").update(bytes).digest("hex");
    const store = await openDiskArtifactStore(dir);
    await store.put(digest, Readable.from([bytes]), 100);
    assert.deepEqual(readdirSync(join(dir, "incoming")), []);
    writeFileSync(join(dir, "incoming", "half"), "la");
    const again = await openDiskArtifactStore(dir);
    assert.deepEqual(readdirSync(join(dir, "incoming")), []);
    assert.deepEqual(await again.list(), [digest]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
