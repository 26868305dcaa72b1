import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import path from "node:path";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, describe, type TestContext, test } from "node:test";
import { S3ArtifactStore } from "../../src/artifacts/s3-artifact-store.ts";
import { BUCKET_PART_BYTES } from "../../src/domain/limits.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import { artifactConformance } from "../conformance/artifacts.ts";
import { eventually } from "../eventually.ts";
import { findS3, startS3 } from "../s3.ts";

const found = await findS3();
const skip = "missing" in found && found.missing;
const server = "program" in found ? await startS3(found.program) : undefined;
after(() => server?.stop());

const MAX_BYTES = 100_000_000;
const HOUR_MS = 3_600_000;
const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const inPieces = (bytes: Buffer) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < bytes.length; at += 1_000_000) yield bytes.subarray(at, at + 1_000_000);
    })(),
  );
const breaking = (bytes: Buffer) =>
  Readable.from(
    (async function* () {
      yield* inPieces(bytes);
      throw new Error("connection lost");
    })(),
  );

async function place(t?: TestContext) {
  const prefix = `${randomBytes(6).toString("hex")}/`;
  const opened: Bucket[] = [];
  const open = async (clock: () => number = Date.now) => {
    const bucket = await Bucket.open({ ...server!.settings, prefix });
    opened.push(bucket);
    return new S3ArtifactStore(bucket, clock);
  };
  const close = () => {
    for (const bucket of opened) bucket.close();
  };
  t?.after(close);
  const store = await open();
  return { bucket: opened[0]!, store, open, close, prefix };
}

/** A store whose process was killed in the middle of an upload of `bytes`, of which so many had come. */
async function killedAfter(open: () => Promise<S3ArtifactStore>, digest: string, bytes: Buffer): Promise<PassThrough> {
  const store = await open();
  const slow = new PassThrough();
  store.put(digest, slow, MAX_BYTES).catch(() => {});
  slow.write(bytes);
  await eventually(async () => assert.equal(await store.partialSize(digest), bytes.length));
  return slow;
}

describe("in a bucket", { skip }, () => {
  artifactConformance("S3", async () => {
    const { store, close } = await place();
    return { store, close: async () => close() };
  });

  test("a layer of several parts comes back as it was, whole and by ranges, and leaves nothing else", async (t) => {
    const { bucket, store } = await place(t);
    const bytes = randomBytes(2.5 * BUCKET_PART_BYTES);
    const digest = digestOf(bytes);
    await store.put(digest, inPieces(bytes), MAX_BYTES);
    assert.ok(bytes.equals(await buffer(await store.open(digest))));
    const [start, end] = [BUCKET_PART_BYTES - 10, BUCKET_PART_BYTES + 10];
    assert.ok(bytes.subarray(start, end + 1).equals(await buffer(await store.open(digest, { start, end }))));
    assert.deepEqual(
      (await bucket.listAll("")).map(({ key }) => key),
      [`layers/${digest}`, `ready/${digest}`],
    );
  });

  test("another process goes on with an upload that broke off, wherever a part ends", async (t) => {
    const { bucket, open } = await place(t);
    const bytes = randomBytes(2.5 * BUCKET_PART_BYTES);
    const digest = digestOf(bytes);
    const ends = [1_000, BUCKET_PART_BYTES, BUCKET_PART_BYTES + 1, 2 * BUCKET_PART_BYTES - 1, bytes.length];
    let from = 0;
    for (const end of ends) {
      const store = await open();
      await assert.rejects(store.put(digest, breaking(bytes.subarray(from, end)), MAX_BYTES, from), /connection lost/);
      const next = await open();
      assert.equal(await next.partialSize(digest), end);
      assert.equal(await next.has(digest), false);
      from = end;
    }
    const last = await open();
    await last.put(digest, Readable.from([]), MAX_BYTES, bytes.length);
    assert.ok(bytes.equals(await buffer(await last.open(digest))));
    assert.deepEqual(await bucket.listAll("incoming/"), []);
  });

  test("of an upload whose process was killed the whole parts are there, and the next one goes on behind them", async (t) => {
    const { store, open } = await place(t);
    const bytes = randomBytes(2.5 * BUCKET_PART_BYTES);
    const digest = digestOf(bytes);
    const slow = await killedAfter(open, digest, bytes.subarray(0, BUCKET_PART_BYTES + 5_000));
    t.after(() => slow.destroy());
    await eventually(async () => assert.equal(await store.partialSize(digest), BUCKET_PART_BYTES));
    await store.put(digest, inPieces(bytes.subarray(BUCKET_PART_BYTES)), MAX_BYTES, BUCKET_PART_BYTES);
    assert.ok(bytes.equals(await buffer(await store.open(digest))));
  });

  test("a process that was killed between the last byte and the check leaves nothing that counts as the layer", async (t) => {
    const { bucket, store, open } = await place(t);
    const bytes = randomBytes(BUCKET_PART_BYTES + 7);
    for (const digest of [digestOf(bytes), digestOf(randomBytes(1))]) {
      await assert.rejects(store.put(digest, breaking(bytes), MAX_BYTES));
      const upload = (await bucket.get(`incoming/${digest}/upload`))!;
      const id = (await buffer(upload)).toString();
      const parts = (await bucket.partsOf(`layers/${digest}`, id))!;
      const rest = await bucket.putPart(`layers/${digest}`, id, 2, bytes.subarray(BUCKET_PART_BYTES));
      await bucket.completeUpload(`layers/${digest}`, id, [...parts, rest]);
      const next = await open();
      assert.equal(await next.has(digest), false);
      assert.ok(!(await next.list()).includes(digest));
      await assert.rejects(next.open(digest), { code: "LAYER_MISSING" });
      assert.equal(await next.partialSize(digest), bytes.length);
      const end = next.put(digest, Readable.from([]), MAX_BYTES, bytes.length);
      if (digest === digestOf(bytes)) {
        await end;
        assert.ok(bytes.equals(await buffer(await next.open(digest))));
      } else {
        await assert.rejects(end, { code: "LAYER_CORRUPT" });
        assert.equal(await next.partialSize(digest), undefined);
        assert.equal(await bucket.head(`layers/${digest}`), undefined);
      }
    }
  });

  test("what broke off and nobody continued is ended in the bucket too", async (t) => {
    const { bucket, store, open, prefix } = await place(t);
    const bytes = randomBytes(2 * BUCKET_PART_BYTES);
    const digest = digestOf(bytes);
    await assert.rejects(store.put(digest, breaking(bytes.subarray(0, BUCKET_PART_BYTES + 1)), MAX_BYTES));
    const id = (await buffer((await bucket.get(`incoming/${digest}/upload`))!)).toString();
    const next = await open();
    await next.deleteUnusedPartials(Date.now() - HOUR_MS);
    assert.equal(await next.partialSize(digest), BUCKET_PART_BYTES + 1);
    await next.deleteUnusedPartials(Date.now() + HOUR_MS);
    assert.equal(await bucket.partsOf(`layers/${digest}`, id), undefined);
    assert.deepEqual(await bucket.listAll(""), []);
    // Nor do its bytes lie anywhere else.
    const left = readdirSync(path.join(server!.folder, ".."), { recursive: true, withFileTypes: true });
    assert.deepEqual(
      left.filter((entry) => entry.isFile() && entry.parentPath.includes(prefix)).map(({ name }) => name),
      [],
    );
  });

  test("what an earlier process was asked for is as good as used a little later than it wrote", async (t) => {
    const { store, open } = await place(t);
    const bytes = randomBytes(100);
    const digest = digestOf(bytes);
    await store.put(digest, inPieces(bytes), MAX_BYTES);
    assert.equal(await (await open()).deleteUnused(digest, Date.now() + HOUR_MS / 2), false);
    // Asked for an hour later, it is noted in the bucket for those to come.
    const later = await open(() => Date.now() + 2 * HOUR_MS);
    assert.equal(await later.has(digest), true);
    assert.equal(await (await open()).deleteUnused(digest, Date.now() + HOUR_MS + 10_000), true);
    assert.equal(await store.has(digest), false);
  });

  test("what another process was asked for since is not deleted by one that remembers an earlier use", async (t) => {
    const { store, open } = await place(t);
    const bytes = randomBytes(100);
    const digest = digestOf(bytes);
    await store.put(digest, inPieces(bytes), MAX_BYTES);
    const other = await open(() => Date.now() + 2 * HOUR_MS);
    assert.equal(await other.has(digest), true);
    const [before, longAfter] = [Date.now() + 60_000, Date.now() + 24 * HOUR_MS];
    assert.equal(await store.deleteUnused(digest, before), false);
    assert.ok(bytes.equals(await buffer(await other.open(digest))));
    assert.equal(await store.deleteUnused(digest, longAfter), true);
  });

  test("while the bucket is away an upload is refused in words; what had arrived is there when it is back", async (t) => {
    const { store } = await place(t);
    const bytes = randomBytes(3 * BUCKET_PART_BYTES);
    const digest = digestOf(bytes);
    const slow = new PassThrough();
    const upload = store.put(digest, slow, MAX_BYTES);
    slow.write(bytes.subarray(0, BUCKET_PART_BYTES + 1));
    await eventually(async () => assert.equal(await store.partialSize(digest), BUCKET_PART_BYTES + 1));
    await server!.kill();
    t.after(() => server!.start().catch(() => {}));
    slow.end(bytes.subarray(BUCKET_PART_BYTES + 1));
    const away = { code: "BUCKET_AWAY", status: 503, message: /"layers" at 127\.0\.0\.1:\d+ does not answer/ };
    await assert.rejects(upload, away);
    await assert.rejects(store.has(digest), away);
    await assert.rejects(store.deleteUnused(digest, Date.now() + HOUR_MS), away);
    await server!.start();
    const there = await store.partialSize(digest);
    assert.ok([undefined, 0, BUCKET_PART_BYTES].includes(there), `${there}`);
    await store.put(digest, inPieces(bytes.subarray(there ?? 0)), MAX_BYTES, there ?? 0);
    assert.ok(bytes.equals(await buffer(await store.open(digest))));
  });
});
