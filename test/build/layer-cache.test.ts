import assert from "node:assert/strict";
import { existsSync, utimesSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { LayerCache } from "../../src/build/layer-cache.ts";
import { CACHE_IN_USE_MS } from "../../src/domain/limits.ts";
import { temporaryFolder } from "./project.ts";

const UNBOUNDED = { countMax: 1_000, bytesMax: 1e12 };

/** A cache with one dependency layer for each text, the first used longest ago. */
async function filled(t: { after(work: () => void): void }, texts: readonly string[]) {
  const dir = temporaryFolder(t);
  const cache = new LayerCache({ cacheDir: dir, configDir: temporaryFolder(t) });
  const used = (key: string, minutesAgo: number) => {
    const at = new Date(Date.now() - CACHE_IN_USE_MS - minutesAgo * 60_000);
    utimesSync(path.join(dir, "dependencies", `${key}.json`), at, at);
  };
  for (const [i, text] of texts.entries()) {
    const layer = await cache.write([{ name: "file", content: Buffer.from(text) }], 1);
    await cache.remember("dependencies", `k${i}`, { digest: layer.digest, sizeBytes: layer.sizeBytes });
    used(`k${i}`, 100 - i);
  }
  const kept = async () => {
    const keys: string[] = [];
    for (const key of texts.map((_, i) => `k${i}`)) {
      const record = cache.record<{ digest: string; sizeBytes: number }>("dependencies", key);
      if (record !== undefined && (await cache.find(record.digest, record.sizeBytes))) keys.push(key);
    }
    return keys;
  };
  return { dir, cache, used, kept };
}

describe("the layer cache", () => {
  test("keeps the layers that were used last, bounded by their number", async (t) => {
    const { cache, kept } = await filled(t, ["a", "b", "c", "d"]);
    await cache.prune("dependencies", { ...UNBOUNDED, countMax: 2 });
    assert.deepEqual(await kept(), ["k2", "k3"]);
  });

  test("and bounded by their bytes together", async (t) => {
    const { cache, kept } = await filled(t, ["a", "b", "c"]);
    const { sizeBytes } = cache.record<{ sizeBytes: number }>("dependencies", "k2")!;
    await cache.prune("dependencies", { ...UNBOUNDED, bytesMax: sizeBytes + 1 });
    assert.deepEqual(await kept(), ["k2"]);
  });

  test("counts a layer that a build took from it as used", async (t) => {
    const { cache, kept } = await filled(t, ["a", "b", "c"]);
    await cache.touch("dependencies", "k0");
    await cache.prune("dependencies", { ...UNBOUNDED, countMax: 1 });
    assert.deepEqual(await kept(), ["k0"]);
  });

  test("removes nothing that was used within the last hour, and no bytes that a kept record names", async (t) => {
    const { cache, kept, used } = await filled(t, ["same", "same", "other"]);
    await cache.prune("dependencies", { ...UNBOUNDED, countMax: 2 });
    assert.deepEqual(await kept(), ["k1", "k2"]);
    for (const key of ["k1", "k2"]) await cache.touch("dependencies", key);
    await cache.prune("dependencies", { countMax: 0, bytesMax: 0 });
    assert.deepEqual(await kept(), ["k1", "k2"]);
    used("k1", 1);
    await cache.prune("dependencies", { ...UNBOUNDED, countMax: 1 });
    assert.deepEqual(await kept(), ["k2"]);
  });

  test("loses what a killed build left half written", async (t) => {
    const { dir, cache } = await filled(t, ["a", "b"]);
    const half = path.join(dir, "layers", "new.1-abcd.tmp");
    writeFileSync(half, "half");
    await cache.prune("dependencies", { ...UNBOUNDED, countMax: 1 });
    assert.ok(existsSync(half));
    const old = new Date(Date.now() - CACHE_IN_USE_MS - 60_000);
    utimesSync(half, old, old);
    await cache.touch("dependencies", "k1");
    await cache
      .write([{ name: "file", content: Buffer.from("c") }], 1)
      .then((layer) => cache.remember("dependencies", "k0", layer));
    utimesSync(path.join(dir, "dependencies", "k0.json"), old, old);
    await cache.prune("dependencies", { ...UNBOUNDED, countMax: 1 });
    assert.ok(!existsSync(half));
  });
});
