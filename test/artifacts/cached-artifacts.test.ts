/** Layers that are kept elsewhere, and the last of them on this machine's disk. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import type { ArtifactStore } from "../../src/artifacts/artifact-store.ts";
import { openCachedArtifacts } from "../../src/artifacts/cached-artifacts.ts";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { artifactConformance } from "../conformance/artifacts.ts";

const MAX_BYTES = 10_000_000;

async function stores(keptMaxBytes = MAX_BYTES) {
  const dir = mkdtempSync(join(tmpdir(), "svc-cached-"));
  const elsewhere = await openDiskArtifactStore(join(dir, "elsewhere"));
  const kept = await openDiskArtifactStore(join(dir, "kept"));
  let opened = 0;
  let failing: ((stream: Readable) => Readable) | undefined;
  const counted: ArtifactStore = {
    ...elsewhere,
    async open(digest, part) {
      opened++;
      const stream = await elsewhere.open(digest, part);
      return failing === undefined ? stream : failing(stream);
    },
  };
  return {
    elsewhere,
    kept,
    store: await openCachedArtifacts(counted, kept, keptMaxBytes),
    opened: () => opened,
    keptFile: (digest: string) => join(dir, "kept", digest.slice(0, 2), digest),
    breakOff(how: typeof failing) {
      failing = how;
    },
    close: () => rmSync(dir, { recursive: true }),
  };
}

async function put({ store }: { store: ArtifactStore }, size: number) {
  const bytes = randomBytes(size);
  const digest = createHash("sha256").update(bytes).digest("hex");
  await store.put(digest, Readable.from([bytes]), MAX_BYTES);
  return { bytes, digest };
}

async function made(t: TestContext, keptMaxBytes?: number) {
  const all = await stores(keptMaxBytes);
  t.after(all.close);
  return all;
}

artifactConformance("cached", async () => {
  const { store, close } = await stores();
  return { store, close: async () => close() };
});

test("a layer comes to the disk once, however many ask for it at once, and is read from there", async (t) => {
  const all = await made(t);
  const { bytes, digest } = await put(all, 300_000);
  const reads = await Promise.all([1, 2, 3].map(async () => buffer(await all.store.open(digest))));
  for (const read of reads) assert.ok(bytes.equals(read));
  assert.equal(all.opened(), 1);
  // Elsewhere it may be away.
  await all.elsewhere.deleteUnused(digest, Number.POSITIVE_INFINITY);
  assert.ok(bytes.equals(await buffer(await all.store.open(digest))));
  assert.equal(await all.store.size(digest), bytes.length);
  assert.equal(await all.store.has(digest), false);
});

test("a layer that the disk here has changed comes again", async (t) => {
  const all = await made(t);
  const { bytes, digest } = await put(all, 1_000);
  assert.ok(bytes.equals(await buffer(await all.store.open(digest))));
  assert.equal(await all.store.dropDamaged(digest), false);
  truncateSync(all.keptFile(digest), 500);
  assert.equal(await all.store.dropDamaged(digest), true);
  assert.ok(bytes.equals(await buffer(await all.store.open(digest))));
  assert.equal(all.opened(), 2);
});

test("a range of a layer that is not here passes through", async (t) => {
  const all = await made(t);
  const { bytes, digest } = await put(all, 1_000);
  assert.ok(bytes.subarray(10, 21).equals(await buffer(await all.store.open(digest, { start: 10, end: 20 }))));
  assert.equal(await all.kept.has(digest), false);
});

test("what breaks off on its way goes on behind what has arrived; what is always cut off is given up", async (t) => {
  const all = await made(t);
  const { bytes, digest } = await put(all, 2_000_000);
  const cut = (stream: Readable) =>
    Readable.from(
      (async function* () {
        for await (const chunk of stream) {
          yield (chunk as Buffer).subarray(0, 200_000);
          throw new Error("connection lost");
        }
      })(),
    );
  all.breakOff(cut);
  await assert.rejects(all.store.open(digest), /connection lost/);
  assert.equal(await all.kept.partialSize(digest), all.opened() * 200_000);
  all.breakOff(undefined);
  assert.ok(bytes.equals(await buffer(await all.store.open(digest))));
});

test("the disk holds what was asked for last, within the bound, and the rest comes again", async (t) => {
  const all = await made(t, 2_500);
  const layers = [await put(all, 1_000), await put(all, 1_000), await put(all, 1_000)];
  const read = async (n: number) => {
    const { bytes, digest } = layers[n]!;
    assert.ok(bytes.equals(await buffer(await all.store.open(digest))));
  };
  for (const n of [0, 1, 0, 2]) await read(n);
  const here = await Promise.all(layers.map(({ digest }) => all.kept.has(digest)));
  assert.deepEqual(here, [true, false, true]);
  await read(1);
  // A layer larger than the bound is kept as long as it is the newest.
  const large = await put(all, 5_000);
  assert.ok(large.bytes.equals(await buffer(await all.store.open(large.digest))));
  assert.deepEqual(await all.kept.list(), [large.digest]);
});
