import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { VolumeSizes } from "../../src/volumes/volume-sizes.ts";

test("A volume above its limit is full until it is below it again, and each is told once", async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), "svc-sizes-"));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const models = { app: "shop", environment: "production", name: "models" };
  const folder = path.join(root, "shop/production/models");
  mkdirSync(path.join(folder, "deep"), { recursive: true });
  mkdirSync(path.join(root, "shop/production/.uploads"));
  const told: string[] = [];
  const sizes = new VolumeSizes(
    openVolumesDisk(root, () => {}),
    (line) => told.push(line),
  );
  assert.deepEqual(sizes.use(models), { sizeBytes: undefined, limitBytes: undefined });

  writeFileSync(path.join(folder, "deep/weights"), Buffer.alloc(3_000_000, 1));
  // What a link leads to is not part of it.
  writeFileSync(path.join(root, "large"), Buffer.alloc(30_000_000, 1));
  symlinkSync(root, path.join(folder, "outside"));
  await sizes.measure();
  const { sizeBytes } = sizes.use(models);
  assert.ok(sizeBytes! >= 3_000_000 && sizeBytes! < 4_000_000, String(sizeBytes));
  assert.equal(sizes.isFull(models), false);

  sizes.limit(new Map([["shop/production/models", 2_000_000]]));
  assert.equal(sizes.isFull(models), true);
  await sizes.measure();
  assert.equal(told.length, 1);
  assert.match(told[0]!, /shop\/production\/models holds \d+ bytes, more than its limit of 2000000/);
  rmSync(path.join(folder, "deep"), { recursive: true });
  await sizes.measure();
  assert.equal(sizes.isFull(models), false);
  assert.match(told[1]!, /below its limit again/);

  rmSync(folder, { recursive: true });
  await sizes.measure();
  assert.equal(sizes.use(models).sizeBytes, undefined);
});
