import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { artifactConformance } from "../conformance/artifacts.ts";

artifactConformance("disk", async () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-artifacts-"));
  return { store: await openDiskArtifactStore(dir), close: async () => rmSync(dir, { recursive: true }) };
});

const bytes = Buffer.from("layer");
const digest = createHash("sha256").update(bytes).digest("hex");

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), "svc-artifacts-"));
  t.after(() => rmSync(dir, { recursive: true }));
  return dir;
}

test("what a platform that was killed left is cleared at start; what was stored, and what arrived of a layer, stays", async (t) => {
  const dir = folder(t);
  const other = "f".repeat(64);
  const store = await openDiskArtifactStore(dir);
  await store.put(digest, Readable.from([bytes]), 100);
  assert.deepEqual(readdirSync(join(dir, "incoming")), []);
  writeFileSync(join(dir, "incoming", "aside"), "la");
  writeFileSync(join(dir, "incoming", `${other}.part`), "la");
  const again = await openDiskArtifactStore(dir);
  assert.deepEqual(readdirSync(join(dir, "incoming")), [`${other}.part`]);
  assert.deepEqual(await again.list(), [digest]);
  assert.equal(await again.partialSize(other), 2);
});

const noFullDevice = !existsSync("/dev/full") && "this system has no /dev/full";

test("a full disk has its own error, and gets back what the upload took", { skip: noFullDevice }, async (t) => {
  const dir = folder(t);
  const store = await openDiskArtifactStore(dir);
  symlinkSync("/dev/full", join(dir, "incoming", `${digest}.part`));
  await assert.rejects(store.put(digest, Readable.from([bytes]), 100), { code: "STORAGE_FULL", status: 507 });
  assert.deepEqual(readdirSync(join(dir, "incoming")), []);
  await store.put(digest, Readable.from([bytes]), 100);
  assert.equal(await store.size(digest), bytes.length);
});

test("a folder that cannot be written is a disk that cannot, whatever the system says; one that was removed is made again", async (t) => {
  const dir = folder(t);
  const incoming = join(dir, "incoming");
  const store = await openDiskArtifactStore(dir);
  const put = () => store.put(digest, Readable.from([bytes]), 100);
  rmSync(incoming, { recursive: true });
  writeFileSync(incoming, "somebody else's");
  await assert.rejects(put(), { code: "STORAGE_FULL", message: /^The platform's disk cannot be written/ });
  rmSync(incoming);
  const broken = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", errno: -104, syscall: "read" });
  const upload = new Readable({ read: () => {} });
  const cut = store.put(digest, upload, 100);
  upload.destroy(broken);
  await assert.rejects(cut, broken);
  await put();
  assert.equal(await store.size(digest), bytes.length);
});
