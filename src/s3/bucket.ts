/**
 * The part of a bucket of an S3 that belongs to this platform: objects below its prefix. Whole objects are sent, never streams,
 * so that each request can be sent again. What fails is tried again by the SDK, a bounded number of times, and is an SvcError then.
 */
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type { ListObjectsV2CommandOutput, S3Client } from "@aws-sdk/client-s3";
import {
  BUCKET_ANSWER_MAX_MS,
  BUCKET_CONNECT_MAX_MS,
  BUCKET_CONNECTIONS_MAX,
  BUCKET_TRIES_MAX,
} from "../domain/limits.ts";
import { inWords, isMissing } from "./bucket-errors.ts";
import type { BucketSettings } from "./bucket-settings.ts";

export interface BucketObject {
  readonly key: string;
  readonly bytes: number;
  /** Milliseconds since the epoch by the bucket's clock; many know it in seconds only, rounded down. */
  readonly changedAt: number;
}

export interface UploadPart {
  /** From 1. */
  readonly n: number;
  readonly etag: string;
  readonly bytes: number;
  readonly changedAt: number;
}

/** A request of the SDK before it is signed. */
type HttpRequest = Parameters<Awaited<ReturnType<S3Client["config"]["signer"]>>["sign"]>[0];
/** What the SDK's signer can besides. */
type Presigner = { presign(request: HttpRequest, options: { expiresIn: number }): Promise<HttpRequest> };

/** A GET has no body, and says so in an address as S3 wants it. */
const UNSIGNED_BODY = { "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD" };

/** Told of every request, when it has ended; `error` in words. */
export type BucketTold = (error: unknown) => void;

/** Every method throws BUCKET_AWAY and BUCKET_REFUSED. Keys are without the prefix. */
export class Bucket {
  readonly settings: BucketSettings;
  readonly #sdk: typeof import("@aws-sdk/client-s3");
  readonly #client: S3Client;
  #told: BucketTold = () => {};

  private constructor(settings: BucketSettings, sdk: typeof import("@aws-sdk/client-s3"), answerMaxMs: number) {
    this.settings = settings;
    this.#sdk = sdk;
    const { endpoint, region, pathStyle, keys } = settings;
    this.#client = new sdk.S3Client({
      ...(endpoint !== undefined && { endpoint }),
      ...((region ?? endpoint) !== undefined && { region: region ?? "us-east-1" }),
      ...(keys && { credentials: { accessKeyId: keys.id, secretAccessKey: keys.secret } }),
      forcePathStyle: pathStyle,
      // Not every S3 knows the checksums that AWS added to it later.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      maxAttempts: BUCKET_TRIES_MAX,
      requestHandler: {
        connectionTimeout: BUCKET_CONNECT_MAX_MS,
        socketTimeout: answerMaxMs,
        httpsAgent: { maxSockets: BUCKET_CONNECTIONS_MAX },
        httpAgent: { maxSockets: BUCKET_CONNECTIONS_MAX },
      },
      // It would advise whoever reads the platform's log about the SDK.
      logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {} },
    });
  }

  /** What speaks with buckets: who may need it in a hurry loads it before. */
  static load() {
    return import("@aws-sdk/client-s3");
  }

  /** Asks nothing of the bucket yet. */
  static async open(settings: BucketSettings, answerMaxMs = BUCKET_ANSWER_MAX_MS): Promise<Bucket> {
    // 20 MB and 0.3 s that a platform without a bucket does not need.
    return new Bucket(settings, await Bucket.load(), answerMaxMs);
  }

  /** From now on. */
  onRequest(told: BucketTold): void {
    this.#told = told;
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.#ask(
      this.#client.send(
        new this.#sdk.PutObjectCommand({ ...this.#at(key), Body: bytes, ContentLength: bytes.byteLength }),
      ),
    );
  }

  /** Undefined when it is not there. The bytes may end with an error, which is not told. */
  async get(key: string, part?: { readonly start: number; readonly end?: number }): Promise<Readable | undefined> {
    const range = part && `bytes=${part.start}-${part.end ?? ""}`;
    const found = await this.#unlessMissing(
      this.#client.send(new this.#sdk.GetObjectCommand({ ...this.#at(key), Range: range })),
    );
    return found?.Body as Readable | undefined;
  }

  /** All of it; undefined when it is not there. What breaks off is asked for again. */
  async read(key: string): Promise<Buffer | undefined> {
    for (let tries = 1; ; tries++) {
      const bytes = await this.get(key);
      try {
        return bytes && (await buffer(bytes));
      } catch (error) {
        if (tries < BUCKET_TRIES_MAX) continue;
        const told = inWords(error, this.settings);
        this.#told(told);
        throw told;
      }
    }
  }

  async head(key: string): Promise<BucketObject | undefined> {
    const found = await this.#unlessMissing(this.#client.send(new this.#sdk.HeadObjectCommand(this.#at(key))));
    return found && { key, bytes: found.ContentLength ?? 0, changedAt: found.LastModified?.getTime() ?? 0 };
  }

  /** Fine when it is not there. One by one: deletes of many are what other S3s differ in most. */
  async delete(key: string): Promise<void> {
    await this.#unlessMissing(this.#client.send(new this.#sdk.DeleteObjectCommand(this.#at(key))));
  }

  /** An address from which anyone may get the object, or a range of it, for so many seconds: the bucket is not asked. */
  async presignedUrl(key: string, seconds: number): Promise<string> {
    const command = new this.#sdk.GetObjectCommand(this.#at(key));
    let url = "";
    // The request goes as far as its address is known, and is signed there instead of sent.
    command.middlewareStack.add(
      () => async (args) => {
        const { request } = args as { request: HttpRequest };
        const { protocol, hostname, port, path } = request;
        const host = port === undefined ? hostname : `${hostname}:${port}`;
        const signer = (await this.#client.config.signer()) as unknown as Presigner;
        const unsigned = Object.assign(request, { headers: { host, ...UNSIGNED_BODY }, query: {} });
        const { query = {} } = await signer.presign(unsigned, { expiresIn: seconds });
        const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
        url = `${protocol}//${host}${path}?${pairs.join("&")}`;
        return { response: {}, output: { $metadata: {} } };
      },
      { step: "build", priority: "low", name: "presign" },
    );
    try {
      await this.#client.send(command);
    } catch (error) {
      throw inWords(error, this.settings); // Its keys could not be had.
    }
    return url;
  }

  /** In the order of their keys. */
  async *list(prefix: string, pageSize?: number): AsyncGenerator<BucketObject> {
    const start = this.settings.prefix;
    let next: string | undefined;
    do {
      const page: ListObjectsV2CommandOutput = await this.#ask(
        this.#client.send(
          new this.#sdk.ListObjectsV2Command({
            Bucket: this.settings.name,
            Prefix: start + prefix,
            ContinuationToken: next,
            MaxKeys: pageSize,
          }),
        ),
      );
      for (const { Key = "", Size = 0, LastModified } of page.Contents ?? []) {
        yield { key: Key.slice(start.length), bytes: Size, changedAt: LastModified?.getTime() ?? 0 };
      }
      next = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (next !== undefined);
  }

  async listAll(prefix: string): Promise<BucketObject[]> {
    const objects: BucketObject[] = [];
    for await (const object of this.list(prefix)) objects.push(object);
    return objects;
  }

  /** Begins an upload in parts; resolves its id. */
  async beginUpload(key: string): Promise<string> {
    const { UploadId } = await this.#ask(this.#client.send(new this.#sdk.CreateMultipartUploadCommand(this.#at(key))));
    return UploadId!;
  }

  /** Part `n`, from 1; all but the last have at least 5 MiB. Sent again, it takes the place of the earlier one. */
  async putPart(key: string, uploadId: string, n: number, bytes: Uint8Array): Promise<UploadPart> {
    const length = bytes.byteLength;
    const part = { ...this.#at(key), UploadId: uploadId, PartNumber: n, Body: bytes, ContentLength: length };
    const { ETag } = await this.#ask(this.#client.send(new this.#sdk.UploadPartCommand(part)));
    return { n, etag: ETag!, bytes: length, changedAt: 0 };
  }

  /** Undefined when there is no such upload (any more). */
  async partsOf(key: string, uploadId: string): Promise<UploadPart[] | undefined> {
    const parts: UploadPart[] = [];
    let next: string | undefined;
    do {
      const command = new this.#sdk.ListPartsCommand({
        ...this.#at(key),
        UploadId: uploadId,
        PartNumberMarker: next,
      });
      const page = await this.#unlessMissing(this.#client.send(command));
      if (page === undefined) return undefined;
      for (const { PartNumber = 0, ETag = "", Size = 0, LastModified } of page.Parts ?? []) {
        parts.push({ n: PartNumber, etag: ETag, bytes: Size, changedAt: LastModified?.getTime() ?? 0 });
      }
      next = page.IsTruncated ? page.NextPartNumberMarker : undefined;
    } while (next !== undefined);
    return parts.sort((a, b) => a.n - b.n);
  }

  async completeUpload(key: string, uploadId: string, parts: readonly UploadPart[]): Promise<void> {
    const Parts = parts.map(({ n, etag }) => ({ PartNumber: n, ETag: etag }));
    const whole = { ...this.#at(key), UploadId: uploadId, MultipartUpload: { Parts } };
    await this.#ask(this.#client.send(new this.#sdk.CompleteMultipartUploadCommand(whole)));
  }

  /** Fine when there is no such upload. */
  async abortUpload(key: string, uploadId: string): Promise<void> {
    await this.#unlessMissing(
      this.#client.send(new this.#sdk.AbortMultipartUploadCommand({ ...this.#at(key), UploadId: uploadId })),
    );
  }

  /** Ends its connections. */
  close(): void {
    this.#client.destroy();
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.settings.name, Key: this.settings.prefix + key };
  }

  async #ask<T>(request: Promise<T>): Promise<T> {
    try {
      const answer = await request;
      this.#told(undefined);
      return answer;
    } catch (error) {
      const told = isMissing(error) ? undefined : inWords(error, this.settings);
      this.#told(told);
      throw told ?? error;
    }
  }

  async #unlessMissing<T>(request: Promise<T>): Promise<T | undefined> {
    try {
      return await this.#ask(request);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
}
