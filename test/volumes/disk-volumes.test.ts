import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { DiskVolumes } from "../../src/volumes/disk-volumes.ts";
import { VolumeSizes } from "../../src/volumes/volume-sizes.ts";

test("What a killed platform left of uploads and removals goes, what is under way stays, and links lead nowhere", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-volumes-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const root = path.join(dir, "volumes");
  const kept = path.join(dir, "kept");
  const uploads = path.join(root, "shop/production/.uploads");
  mkdirSync(path.join(uploads, "removed/deep"), { recursive: true });
  mkdirSync(kept);
  writeFileSync(path.join(kept, "file"), "");
  symlinkSync(kept, path.join(uploads, "removed/deep/link"));
  for (const name of ["upload", "under-way"]) writeFileSync(path.join(uploads, name), "half");
  for (const name of ["upload", "removed"]) utimesSync(path.join(uploads, name), 1, 1);
  const disk = openVolumesDisk(root, () => {});
  const volumes = new DiskVolumes({ disk, sizes: new VolumeSizes(disk, () => {}), make: async () => {} });
  await volumes.sweep(1_000_000);
  assert.deepEqual(readdirSync(uploads), ["under-way"]);
  assert.deepEqual(readdirSync(kept), ["file"]);
  assert.deepEqual(await volumes.names({ app: "shop", environment: "production" }), []);
});

test("A volume that is removed twice at once is removed, and the second is told that there is none", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-volumes-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const disk = openVolumesDisk(dir, () => {});
  const volumes = new DiskVolumes({ disk, sizes: new VolumeSizes(disk, () => {}), make: async () => {} });
  const volume = { app: "shop", environment: "production", name: "files" };
  for (let n = 0; n < 10; n++) {
    mkdirSync(path.join(dir, "shop/production/files"), { recursive: true });
    const both = await Promise.allSettled([volumes.delete(volume), volumes.delete(volume)]);
    const refused = both.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    assert.deepEqual(
      refused.map(({ reason }) => reason.code),
      ["NOT_FOUND"],
    );
  }
});
