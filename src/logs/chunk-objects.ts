/** Chunks of logs as objects of a bucket: logs/<endpoint>/<chunk>.ndjson.zst, lines of JSON in one Zstandard frame. */

import { zstdCompress, zstdDecompress } from "node:zlib";
import { LOG_CHUNK_MAX_BYTES } from "../domain/limits.ts";
import { promisify } from "../lib/parts-of-node.ts";
import type { Bucket } from "../s3/bucket.ts";

const FOLDER = "logs/";
const OBJECT = /^logs\/([^/]+)\/([^/]+)\.ndjson\.zst$/;
/** With the line that says what is left out before it. */
const TEXT_MAX_BYTES = 2 * LOG_CHUNK_MAX_BYTES;

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

export interface ChunkName {
  readonly endpointId: string;
  readonly id: string;
}

/** Every method throws BUCKET_AWAY and BUCKET_REFUSED. */
export class ChunkObjects {
  readonly #bucket: Bucket;

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  /** Put again, it takes the place of the earlier one. */
  async put(name: ChunkName, text: string): Promise<void> {
    await this.#bucket.put(keyOf(name), await compress(text));
  }

  /** Undefined when it is not there, or not what was put. */
  async text(name: ChunkName): Promise<string | undefined> {
    const bytes = await this.#bucket.read(keyOf(name));
    if (bytes === undefined) return undefined;
    try {
      return (await decompress(bytes, { maxOutputLength: TEXT_MAX_BYTES })).toString("utf8");
    } catch {
      return undefined;
    }
  }

  async delete(name: ChunkName): Promise<void> {
    await this.#bucket.delete(keyOf(name));
  }

  /** Those that were written last before `before`, milliseconds since the epoch by the bucket's clock. */
  async *list(before: number): AsyncGenerator<ChunkName> {
    for await (const { key, changedAt } of this.#bucket.list(FOLDER)) {
      const [, endpointId, id] = OBJECT.exec(key) ?? [];
      if (endpointId !== undefined && id !== undefined && changedAt < before) yield { endpointId, id };
    }
  }
}

function keyOf({ endpointId, id }: ChunkName): string {
  return `${FOLDER}${endpointId}/${id}.ndjson.zst`;
}
