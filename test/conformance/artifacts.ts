/** What every implementation of the artifact store must do. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import type { ArtifactStore } from "../../src/artifacts/artifact-store.ts";
import { SvcError } from "../../src/domain/errors.ts";

export interface ArtifactsUnderTest {
  readonly store: ArtifactStore;
  close(): Promise<void>;
}

const MAX_BYTES = 10_000_000;
const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const withCode = (code: string) => (error: unknown) => error instanceof SvcError && error.code === code;
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

    test("storing a layer again is fine, also twice at once", async () => {
      const bytes = randomBytes(5_000);
      const digest = digestOf(bytes);
      await Promise.all([1, 2].map(() => under.store.put(digest, inPieces(bytes), MAX_BYTES)));
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      assert.ok(bytes.equals(await buffer(await under.store.open(digest))));
      assert.equal((await under.store.list()).filter((found) => found === digest).length, 1);
    });

    test("bytes that do not match their digest are refused and leave nothing behind", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(randomBytes(10));
      await assert.rejects(under.store.put(digest, inPieces(bytes), MAX_BYTES), withCode("LAYER_CORRUPT"));
      assert.equal(await under.store.has(digest), false);
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
    });

    test("an upload that breaks off leaves nothing behind", async () => {
      const bytes = randomBytes(1_000);
      const broken = Readable.from(
        (function* () {
          yield bytes;
          throw new Error("connection lost");
        })(),
      );
      await assert.rejects(under.store.put(digestOf(bytes), broken, MAX_BYTES), /connection lost/);
      assert.equal(await under.store.has(digestOf(bytes)), false);
    });

    test("a layer that is not there is missing, before and after it was deleted", async () => {
      const bytes = randomBytes(1_000);
      const digest = digestOf(bytes);
      await assert.rejects(under.store.open(digest), withCode("LAYER_MISSING"));
      await under.store.put(digest, inPieces(bytes), MAX_BYTES);
      const later = Date.now() + 1000;
      assert.equal(await under.store.deleteUnused(digest, later), true);
      assert.equal(await under.store.deleteUnused(digest, later), true);
      await assert.rejects(under.store.open(digest), withCode("LAYER_MISSING"));
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
      }
    });
  });
}
