/**
 * Layers in a bucket: layers/<digest>, and ready/<digest> once its bytes were found to be that layer. Who asks for one sees
 * the second alone; when it was last written, at most BUCKET_USE_MS ago, says when the layer was last asked for.
 *
 *   bytes ─hashed─▶ parts ─▶ layers/<digest> ─▶ ready/<digest>      what went on from an earlier upload is read back and hashed
 *
 * One process at a time uploads to a prefix of a bucket and removes from it: these meet in memory. Others may be asked for layers.
 */
import { createHash, type Hash } from "node:crypto";
import type { Readable } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import { BUCKET_CLOCK_MS, BUCKET_USE_MS } from "../domain/limits.ts";
import type { Bucket, BucketObject } from "../s3/bucket.ts";
import type { ArtifactStore } from "./artifact-store.ts";
import {
  isDigest,
  layerCorrupt,
  layerMissing,
  layerTooLarge,
  otherUpload,
  requireDigest,
  wrongOffset,
} from "./layer-words.ts";
import { type Arrived, findArrived, forgetArrived, layerKey, listArrived, PartWriter } from "./s3-uploads.ts";

const READY = "ready/";
const readyKey = (digest: string) => READY + digest;

export class S3ArtifactStore implements ArtifactStore {
  readonly #bucket: Bucket;
  readonly #clock: () => number;
  /** Digest → bytes that arrived so far, of those that are uploaded or removed just now. */
  readonly #busy = new Map<string, number>();
  readonly #deleting = new Map<string, Promise<boolean>>();
  /** Digest → when it was last asked for, since this process runs. */
  readonly #used = new Map<string, number>();

  constructor(bucket: Bucket, clock: () => number) {
    this.#bucket = bucket;
    this.#clock = clock;
  }

  async has(digest: string): Promise<boolean> {
    return (await this.#use(digest)) !== undefined;
  }

  async size(digest: string): Promise<number | undefined> {
    return (await this.#use(digest))?.bytes;
  }

  async put(digest: string, bytes: Readable, maxBytes: number, offset = 0): Promise<void> {
    requireDigest(digest);
    // They are read later: a connection that breaks before that is told then.
    bytes.on("error", () => {});
    if (this.#busy.has(digest)) throw otherUpload(digest);
    this.#busy.set(digest, offset);
    try {
      await this.#receive(digest, bytes, maxBytes, offset);
    } finally {
      this.#busy.delete(digest);
    }
  }

  async partialSize(digest: string): Promise<number | undefined> {
    requireDigest(digest);
    return this.#busy.get(digest) ?? (await findArrived(this.#bucket, digest))?.bytes;
  }

  async open(digest: string, part?: { readonly start: number; readonly end: number }): Promise<Readable> {
    const found = await this.#use(digest);
    const bytes = found && (await this.#bucket.get(layerKey(digest), part));
    if (bytes === undefined) throw layerMissing(digest);
    return bytes;
  }

  async list(): Promise<string[]> {
    return (await this.#bucket.listAll(READY)).map(digestIn).filter(isDigest);
  }

  /** The bucket looks after what it keeps. */
  async dropDamaged(): Promise<boolean> {
    return false;
  }

  async deleteUnused(digest: string, before: number): Promise<boolean> {
    requireDigest(digest);
    if (this.#busy.has(digest)) return false;
    const earlier = this.#deleting.get(digest);
    if (earlier !== undefined) return earlier;
    const work = this.#deleteUnused(digest, before).finally(() => this.#deleting.delete(digest));
    this.#deleting.set(digest, work);
    return work;
  }

  async deleteUnusedPartials(before: number): Promise<void> {
    for (const digest of await listArrived(this.#bucket)) {
      if (!isDigest(digest) || this.#busy.has(digest)) continue;
      this.#busy.set(digest, 0);
      try {
        const arrived = await findArrived(this.#bucket, digest);
        if (arrived === undefined || arrived.changedAt < before) await this.#forget(digest, arrived);
      } finally {
        this.#busy.delete(digest);
      }
    }
  }

  async #receive(digest: string, bytes: Readable, maxBytes: number, offset: number): Promise<void> {
    await this.#deleting.get(digest)?.catch(() => {});
    if (offset === 0 && (await this.has(digest))) return await compare(digest, bytes, maxBytes);
    const arrived = await findArrived(this.#bucket, digest);
    if (offset !== 0 && offset !== (arrived?.bytes ?? 0)) throw wrongOffset(digest, arrived?.bytes ?? 0, offset);
    if (offset === 0 && arrived !== undefined) await this.#forget(digest, arrived);
    if (offset !== 0 && arrived!.isWhole) {
      await this.#requireEnd(digest, bytes, maxBytes, offset);
      return await this.#finish(digest, undefined);
    }
    const writer = await PartWriter.behind(this.#bucket, digest, offset === 0 ? undefined : arrived);
    const hash = createHash("sha256");
    try {
      await this.#append(digest, bytes, maxBytes, offset, { writer, hash });
      await this.#store(digest, offset, { writer, hash });
    } catch (error) {
      await writer.end();
      if (error instanceof SvcError && (error.code === "TOO_LARGE" || error.code === "LAYER_CORRUPT")) {
        await forgetArrived(this.#bucket, digest, writer.id);
      }
      throw error;
    }
  }

  async #append(digest: string, bytes: Readable, maxBytes: number, offset: number, { writer, hash }: Upload) {
    let size = offset;
    try {
      for await (const chunk of bytes as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > maxBytes) throw layerTooLarge(maxBytes);
        hash.update(chunk);
        await writer.write(chunk);
        this.#busy.set(digest, size);
      }
    } catch (error) {
      if (!(error instanceof SvcError)) await writer.keep();
      throw error;
    }
  }

  async #store(digest: string, offset: number, { writer, hash }: Upload): Promise<void> {
    // What is in no part is all in memory.
    const isHashed = offset === 0 || writer.id === undefined;
    if (isHashed) {
      const found = (offset === 0 ? hash : createHash("sha256").update(writer.rest())).digest("hex");
      if (found !== digest) throw layerCorrupt(digest, found);
    }
    await writer.complete();
    await this.#finish(digest, isHashed);
  }

  /** The object is whole. Reads it back unless it `isHashed`. */
  async #finish(digest: string, isHashed: boolean | undefined): Promise<void> {
    if (!isHashed) {
      const found = await this.#hashOf(digest);
      if (found !== digest) {
        await this.#bucket.delete(layerKey(digest));
        await forgetArrived(this.#bucket, digest, undefined);
        throw layerCorrupt(digest, found);
      }
    }
    this.#used.set(digest, this.#clock());
    await this.#bucket.put(readyKey(digest), Buffer.alloc(0));
    await forgetArrived(this.#bucket, digest, undefined);
  }

  /** All of it had arrived: what comes now is nothing. */
  async #requireEnd(digest: string, bytes: Readable, maxBytes: number, offset: number): Promise<void> {
    let size = offset;
    for await (const chunk of bytes as AsyncIterable<Buffer>) size += chunk.length;
    if (size === offset && size <= maxBytes) return;
    await this.#bucket.delete(layerKey(digest));
    await forgetArrived(this.#bucket, digest, undefined);
    throw size > maxBytes ? layerTooLarge(maxBytes) : layerCorrupt(digest, "that of other bytes");
  }

  async #hashOf(digest: string): Promise<string> {
    const bytes = await this.#bucket.get(layerKey(digest));
    if (bytes === undefined) throw layerMissing(digest);
    const hash = createHash("sha256");
    for await (const chunk of bytes as AsyncIterable<Buffer>) hash.update(chunk);
    return hash.digest("hex");
  }

  async #forget(digest: string, arrived: Arrived | undefined): Promise<void> {
    if (arrived?.isWhole && (await this.#bucket.head(readyKey(digest))) === undefined) {
      await this.#bucket.delete(layerKey(digest));
    }
    await forgetArrived(this.#bucket, digest, arrived?.upload?.id);
  }

  /** Undefined when it is not there or not ready. Noted before the bucket is asked: from then on it is not deleted. */
  async #use(digest: string): Promise<BucketObject | undefined> {
    requireDigest(digest);
    await this.#deleting.get(digest)?.catch(() => {});
    const now = this.#clock();
    this.#used.set(digest, now);
    const [layer, ready] = await Promise.all([
      this.#bucket.head(layerKey(digest)),
      this.#bucket.head(readyKey(digest)),
    ]);
    if (layer === undefined || ready === undefined) {
      this.#used.delete(digest);
      return undefined;
    }
    if (ready.changedAt + BUCKET_USE_MS < now) await this.#bucket.put(readyKey(digest), Buffer.alloc(0));
    return layer;
  }

  async #deleteUnused(digest: string, before: number): Promise<boolean> {
    if ((this.#used.get(digest) ?? Number.NEGATIVE_INFINITY) >= before) return false;
    const isUsed = async () => {
      const ready = await this.#bucket.head(readyKey(digest));
      // Another process may have been asked for it later than it wrote.
      return ready !== undefined && ready.changedAt + BUCKET_USE_MS + BUCKET_CLOCK_MS >= before;
    };
    if (await isUsed()) return false;
    await this.#bucket.delete(readyKey(digest));
    // Who was asked for it meanwhile has written it again.
    if (await isUsed()) return false;
    await this.#bucket.delete(layerKey(digest));
    this.#used.delete(digest);
    return true;
  }
}

interface Upload {
  readonly writer: PartWriter;
  /** Of the bytes that came now. */
  readonly hash: Hash;
}

function digestIn({ key }: BucketObject): string {
  return key.slice(READY.length);
}

/** It is there already: only whether these are its bytes is to be told. */
async function compare(digest: string, bytes: Readable, maxBytes: number): Promise<void> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of bytes as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw layerTooLarge(maxBytes);
    hash.update(chunk);
  }
  const found = hash.digest("hex");
  if (found !== digest) throw layerCorrupt(digest, found);
}
