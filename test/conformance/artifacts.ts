/** What every implementation of the artifact store must do. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import type { ArtifactStore } from "../../src/artifacts/artifact-store.ts";
import { SvcError } from "../../src/domain/errors.ts";

export interface ArtifactsUnderTest {
  readonly store: ArtifactStore;
  close(): Promise<void>;
}

const MAX_BYTES = 10_000_000;
const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const withCode = (code: string) => (error: unknown) => error instanceof SvcError && error.code === code;
/** Ends with an error behind its bytes. */
const breaking = (bytes: Buffer) =>
  Readable.from(
    (function* () {
      yield bytes;
      throw new Error("connection lost");
    })(),
  );
const inPieces = (bytes: Buffer) => Readable.from([bytes.subarray(0, 10), bytes.subarray(10)]);

export function artifactConformance(name: string, open: () => Promise<ArtifactsUnderTest>): void {
  describe(`${name}: the artifact store`, () => {
    let under: ArtifactsUnderTest;
    before(async () => {
      under = await open();
    });
    after(() => under.close());

    test("a layer comes back byte for byte under its digest", async () => {
      const bytes = randomBytes(300_000);
      const digest = digestOf(bytes);
      assert.equal(await under.store.has(digest), false);
      assert.equal(await under.store.size(digest), undefined);
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      assert.equal(await under.store.has(digest), true);
      assert.equal(await under.store.size(digest), bytes.length);
      assert.ok((await under.store.list()).includes(digest));
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
    });

    test("storing a layer again is fine", async () => {
      const bytes = randomBytes(5_000);
      const digest = digestOf(bytes);
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
      assert.equal((await under.store.list()).filter((found) => found === digest).length, 1);
    });

    test("bytes that do not match their digest are refused and leave nothing behind", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(randomBytes(10));
      await assert.rejects(under.store.put(digest, inPieces(bytes), MAX_BYTES), withCode("LAYER_CORRUPT"));
      assert.equal(await under.store.has(digest), false);
      assert.equal(await under.store.partialSize(digest), undefined);
      assert.ok(!(await under.store.list()).includes(digest));
    });

    test("a layer above the limit is refused while it arrives", async () => {
      const bytes = randomBytes(1_000);
      let sent = 0;
      const endless = Readable.from(
        (function* () {
          for (; sent < 1_000_000; sent++) yield bytes;
        })(),
      );
      await assert.rejects(under.store.put(digestOf(bytes), endless, 5_000), withCode("TOO_LARGE"));
      assert.ok(sent < 1_000);
      assert.equal(await under.store.has(digestOf(bytes)), false);
      assert.equal(await under.store.partialSize(digestOf(bytes)), undefined);
    });

    test("an upload that breaks off goes on from what arrived, as often as it takes", async () => {
      const bytes = randomBytes(300_000);
      const digest = digestOf(bytes);
      assert.equal(await under.store.partialSize(digest), undefined);
      for (const [from, to] of [
        [0, 100_000],
        [100_000, 100_001],
        [100_001, 300_000],
      ] as const) {
        const part = under.store.put(digest, breaking(bytes.subarray(from, to)), MAX_BYTES, from);
        await assert.rejects(part, /connection lost/);
        assert.equal(await under.store.partialSize(digest), to);
        assert.equal(await under.store.has(digest), false);
        assert.ok(!(await under.store.list()).includes(digest));
        await assert.rejects(under.store.open(digest), withCode("LAYER_MISSING"));
      }
      // All of it had arrived before it broke: an empty rest makes it whole.
      await under.store.put(digest, Readable.from([]), MAX_BYTES, bytes.length);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
      assert.equal(await under.store.partialSize(digest), undefined);
    });

    test("wherever an upload is cut, its rest makes the layer whole", async () => {
      const cuts = fc.array(fc.integer({ min: 0, max: 5_000 }), { maxLength: 5 });
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 5_000 }), cuts, async (content, at) => {
          const bytes = Buffer.from(content);
          const digest = digestOf(bytes);
          const ends = at.filter((end) => end < bytes.length).sort((a, b) => a - b);
          let from = 0;
          for (const end of ends) {
            await assert.rejects(under.store.put(digest, breaking(bytes.subarray(from, end)), MAX_BYTES, from));
            from = (await under.store.partialSize(digest))!;
            assert.equal(from, end);
          }
          await under.store.put(digest, Readable.from([bytes.subarray(from)]), MAX_BYTES, from);
          assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
        }),
        { numRuns: 30 },
      );
    });

    test("an upload goes on only from what is there, and can always begin anew", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      const from = (offset: number) => under.store.put(digest, inPieces(bytes.subarray(offset)), MAX_BYTES, offset);
      await assert.rejects(from(1), withCode("CONFLICT"));
      await assert.rejects(under.store.put(digest, breaking(bytes.subarray(0, 600)), MAX_BYTES));
      for (const wrong of [1, 599, 601, 1_000, 2_000]) await assert.rejects(from(wrong), withCode("CONFLICT"));
      assert.equal(await under.store.partialSize(digest), 600);
      await from(0);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
    });

    test("bytes that went on from another layer's, and those that pass the limit together, leave nothing behind", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      await assert.rejects(under.store.put(digest, breaking(randomBytes(400)), MAX_BYTES));
      const rest = () => inPieces(bytes.subarray(400));
      await assert.rejects(under.store.put(digest, rest(), MAX_BYTES, 400), withCode("LAYER_CORRUPT"));
      assert.equal(await under.store.partialSize(digest), undefined);
      await assert.rejects(under.store.put(digest, breaking(bytes.subarray(0, 400)), MAX_BYTES));
      await assert.rejects(under.store.put(digest, rest(), 999, 400), withCode("TOO_LARGE"));
      assert.equal(await under.store.partialSize(digest), undefined);
      assert.equal(await under.store.has(digest), false);
    });

    test("of two uploads of one layer the second is refused until the first has ended", async () => {
      const bytes = randomBytes(10_000);
      const digest = digestOf(bytes);
      const slow = new PassThrough();
      const first = under.store.put(digest, slow, MAX_BYTES);
      slow.write(bytes.subarray(0, 4_000));
      while ((await under.store.partialSize(digest)) !== 4_000) await new Promise(setImmediate);
      for (const offset of [0, 4_000]) {
        const second = under.store.put(digest, inPieces(bytes.subarray(offset)), MAX_BYTES, offset);
        await assert.rejects(second, withCode("CONFLICT"));
      }
      await under.store.deleteUnusedPartials(Date.now() + 1_000);
      slow.destroy(new Error("connection lost"));
      await assert.rejects(first, /connection lost/);
      await under.store.put(digest, inPieces(bytes.subarray(4_000)), MAX_BYTES, 4_000);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
    });

    test("what arrived of an upload goes when nobody continued it, and not before", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      await assert.rejects(under.store.put(digest, breaking(bytes.subarray(0, 500)), MAX_BYTES));
      await under.store.deleteUnusedPartials(Date.now() - 1_000);
      assert.equal(await under.store.partialSize(digest), 500);
      await under.store.deleteUnusedPartials(Date.now() + 1_000);
      assert.equal(await under.store.partialSize(digest), undefined);
    });

    test("a layer that is not there is missing, before and after it was deleted", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      await assert.rejects(under.store.open(digest), withCode("LAYER_MISSING"));
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      // In a bucket a use is as good as one a little later.
      const later = Date.now() + 24 * 3_600_000;
      assert.equal(await under.store.deleteUnused(digest, later), true);
      assert.equal(await under.store.deleteUnused(digest, later), true);
      await assert.rejects(under.store.open(digest), withCode("LAYER_MISSING"));
    });

    test("a layer that is whole, or not there, is not dropped as damaged", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      assert.equal(await under.store.dropDamaged(digest), false);
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      assert.equal(await under.store.dropDamaged(digest), false);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
    });

    test("a layer that was stored or asked for since is not deleted", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      const before = Date.now() - 1000;
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      assert.equal(await under.store.deleteUnused(digest, before), false);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
    });

    test("who was told that a layer is there finds it, however often it is swept meanwhile", async () => {
      for (let round = 0; round < 20; round += 1) {
        const bytes = randomBytes(1_000);
        const digest = digestOf(bytes);
        await under.store.put(digest, inPieces(bytes), MAX_BYTES);
        await new Promise((resolve) => setTimeout(resolve, 2));
        const before = Date.now();
        const [told] = await Promise.all([under.store.has(digest), under.store.deleteUnused(digest, before)]);
        if (told) assert.ok(bytes.equals(await buffer(await under.store.open(digest))), `round ${round}`);
      }
    });

    test("only 64 lower-case hex digits name a layer", async () => {
      for (const wrong of ["", "../../etc/passwd", "A".repeat(64), "a".repeat(63), `${"a".repeat(64)}/`]) {
        await assert.rejects(async () => under.store.has(wrong), withCode("BAD_INPUT"));
        await assert.rejects(async () => under.store.open(wrong), withCode("BAD_INPUT"));
        await assert.rejects(async () => under.store.put(wrong, Readable.from([]), 1), withCode("BAD_INPUT"));
        await assert.rejects(async () => under.store.deleteUnused(wrong, 0), withCode("BAD_INPUT"));
        await assert.rejects(async () => under.store.partialSize(wrong), withCode("BAD_INPUT"));
      }
    });
  });
}
