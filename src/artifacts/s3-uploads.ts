/**
 * What has arrived of layers on their way to a bucket:
 *
 *   bytes ─▶ parts of BUCKET_PART_BYTES: a multipart upload of layers/<digest>, whose id stands in incoming/<digest>/upload
 *        └─▶ the rest below a part, when they break off: incoming/<digest>/<parts before it>
 *
 * So any process can go on where an earlier one ended, or was killed: behind the last byte that the bucket holds.
 */
import { BUCKET_CLOCK_MS, BUCKET_PART_BYTES, BUCKET_PARTS_AT_ONCE } from "../domain/limits.ts";
import type { Bucket, UploadPart } from "../s3/bucket.ts";

const INCOMING = "incoming/";

export const layerKey = (digest: string) => `layers/${digest}`;
const folderOf = (digest: string) => `${INCOMING}${digest}/`;
const idKey = (digest: string) => `${folderOf(digest)}upload`;
const restKey = (digest: string, parts: number) => `${folderOf(digest)}${parts}`;

/** What the bucket holds of a layer that is not ready. */
export interface Arrived {
  /** In order and without a gap; undefined: no multipart upload was begun. */
  readonly upload: { readonly id: string; readonly parts: readonly UploadPart[] } | undefined;
  /** All parts were put together, but nobody has looked yet whether they are the layer. */
  readonly isWhole: boolean;
  /** Of the bytes behind the parts. */
  readonly restBytes: number;
  readonly bytes: number;
  /** Milliseconds since the epoch by the bucket's clock, at the latest. */
  readonly changedAt: number;
}

/** Undefined when nothing is there. */
export async function findArrived(bucket: Bucket, digest: string): Promise<Arrived | undefined> {
  const objects = await bucket.listAll(folderOf(digest));
  if (objects.length === 0) return undefined;
  let changedAt = Math.max(...objects.map((object) => object.changedAt)) + BUCKET_CLOCK_MS;
  const found = { upload: undefined, isWhole: false, restBytes: 0 };
  const restOf = (parts: number) => objects.find(({ key }) => key === restKey(digest, parts))?.bytes ?? 0;
  if (!objects.some(({ key }) => key === idKey(digest))) {
    return { ...found, restBytes: restOf(0), bytes: restOf(0), changedAt };
  }
  const id = await bucket.read(idKey(digest));
  const listed = id && (await bucket.partsOf(layerKey(digest), id.toString()));
  if (listed === undefined) {
    const whole = await bucket.head(layerKey(digest));
    return whole && { ...found, isWhole: true, bytes: whole.bytes, changedAt };
  }
  const gap = listed.findIndex(({ n, bytes }, i) => n !== i + 1 || bytes !== BUCKET_PART_BYTES);
  const parts = gap === -1 ? listed : listed.slice(0, gap);
  for (const part of listed) changedAt = Math.max(changedAt, part.changedAt + BUCKET_CLOCK_MS);
  const restBytes = restOf(parts.length);
  const bytes = parts.length * BUCKET_PART_BYTES + restBytes;
  return { ...found, upload: { id: id!.toString(), parts }, restBytes, bytes, changedAt };
}

/** Digests of layers of which something is there. */
export async function listArrived(bucket: Bucket): Promise<Set<string>> {
  const digests = new Set<string>();
  for await (const { key } of bucket.list(INCOMING)) digests.add(key.slice(INCOMING.length).split("/", 1)[0]!);
  return digests;
}

/** Removes what arrived of a layer, but for what is under its own name. */
export async function forgetArrived(bucket: Bucket, digest: string, id: string | undefined): Promise<void> {
  if (id !== undefined) await bucket.abortUpload(layerKey(digest), id);
  // The id comes last in their order: until it is gone, the rest is found again.
  for await (const { key } of bucket.list(folderOf(digest))) await bucket.delete(key);
}

/** One upload: bytes in, parts out, some at once. */
export class PartWriter {
  readonly #bucket: Bucket;
  readonly #digest: string;
  #id: string | undefined;
  readonly #parts: UploadPart[];
  #rest: Buffer[] = [];
  #restBytes = 0;
  readonly #sending = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  private constructor(bucket: Bucket, digest: string, upload: Arrived["upload"]) {
    this.#bucket = bucket;
    this.#digest = digest;
    this.#id = upload?.id;
    this.#parts = [...(upload?.parts ?? [])];
  }

  /** Goes on behind what arrived, where there is something. */
  static async behind(bucket: Bucket, digest: string, arrived: Arrived | undefined): Promise<PartWriter> {
    const writer = new PartWriter(bucket, digest, arrived?.upload);
    if ((arrived?.restBytes ?? 0) === 0) return writer;
    const rest = await bucket.read(restKey(digest, writer.#parts.length));
    if (rest !== undefined) await writer.write(rest);
    return writer;
  }

  /** Undefined until a part was full. */
  get id(): string | undefined {
    return this.#id;
  }

  /** Takes the bytes over. Waits while enough parts are on their way. */
  async write(bytes: Buffer): Promise<void> {
    let at = 0;
    while (at < bytes.length) {
      const taken = bytes.subarray(at, at + BUCKET_PART_BYTES - this.#restBytes);
      this.#rest.push(taken);
      this.#restBytes += taken.length;
      at += taken.length;
      if (this.#restBytes === BUCKET_PART_BYTES) await this.#send();
    }
  }

  /** What is not in a part yet; all of it, when no part was ever full. */
  rest(): Buffer {
    return Buffer.concat(this.#rest, this.#restBytes);
  }

  /** Puts all that came into the bucket, for whoever goes on. */
  async keep(): Promise<void> {
    await this.#sent();
    if (this.#restBytes > 0 || this.#id === undefined) {
      await this.#bucket.put(restKey(this.#digest, this.#parts.length), this.rest());
    }
  }

  /** Makes one object of all that came. */
  async complete(): Promise<void> {
    if (this.#id === undefined) return this.#bucket.put(layerKey(this.#digest), this.rest());
    if (this.#restBytes > 0) await this.#send();
    await this.#sent();
    await this.#bucket.completeUpload(layerKey(this.#digest), this.#id, this.#parts);
  }

  /** Nothing is sent any more when it resolves. */
  async end(): Promise<void> {
    await Promise.all(this.#sending);
  }

  async #send(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#id === undefined) {
      const id = await this.#bucket.beginUpload(layerKey(this.#digest));
      await this.#bucket.put(idKey(this.#digest), Buffer.from(id));
      this.#id = id;
    }
    const bytes = this.rest();
    this.#rest = [];
    this.#restBytes = 0;
    const n = this.#parts.length + 1;
    this.#parts.push({ n, etag: "", bytes: bytes.length, changedAt: 0 });
    const sending = this.#bucket
      .putPart(layerKey(this.#digest), this.#id, n, bytes)
      .then(
        (part) => {
          this.#parts[n - 1] = part;
        },
        (error: unknown) => {
          this.#failure ??= { error };
        },
      )
      .finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
    while (this.#sending.size >= BUCKET_PARTS_AT_ONCE) await Promise.race(this.#sending);
  }

  async #sent(): Promise<void> {
    await this.end();
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
