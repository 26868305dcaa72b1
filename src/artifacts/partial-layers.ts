/**
 * What has arrived of layers that are not whole: <dir>/<digest>.part, written by one upload at a time. It stays when the
 * upload breaks off, also when the platform is killed, and the next upload goes on behind it.
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import { LAYER_READ_BYTES } from "../domain/limits.ts";
import { diskRefused, lackOf } from "../domain/storage.ts";
import { makeDurableFolder } from "../lib/durable-folder.ts";
import { ifThere } from "../lib/if-there.ts";
import { layerCorrupt, layerTooLarge, otherUpload, wrongOffset } from "./layer-words.ts";

const SUFFIX = ".part";

export class PartialLayers {
  readonly #dir: string;
  /** Digests whose file is written or removed just now. */
  readonly #busy = new Set<string>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  static isPartial(name: string): boolean {
    return name.endsWith(SUFFIX);
  }

  async size(digest: string): Promise<number | undefined> {
    return (await ifThere(stat(this.#pathOf(digest))))?.size;
  }

  /**
   * Puts `bytes` behind the first `offset` that are there; 0 starts anew. `store` gets the file once it is whole, checked
   * and synced, and moves it away. Throws CONFLICT while another upload writes it and when not `offset` bytes are there.
   * What can never become the layer is removed, and so is what filled the disk: the platform needs the room.
   */
  async receive(
    digest: string,
    offset: number,
    bytes: Readable,
    maxBytes: number,
    store: (path: string) => Promise<void>,
  ): Promise<void> {
    let cut: Error | undefined;
    // They are read later: a connection that breaks before that is told then.
    bytes.on("error", (error) => {
      cut = error;
    });
    if (!this.#take(digest)) throw otherUpload(digest);
    const path = this.#pathOf(digest);
    try {
      await makeDurableFolder(this.#dir, 0o700);
      await this.#expect(digest, offset);
      const found = await append(path, offset, bytes, maxBytes);
      if (found !== digest) throw layerCorrupt(digest, found);
      await store(path);
    } catch (error) {
      const isFull = lackOf(error) === "room";
      const isBad = error instanceof SvcError && error.code !== "CONFLICT";
      if (isFull || isBad) await rm(path, { force: true }).catch(() => {}); // What failed is said.
      if (error === cut) throw error;
      throw isFull ? diskFull(error) : diskRefused(error);
    } finally {
      this.#busy.delete(digest);
    }
  }

  /** Removes what nobody has added to since `before` (milliseconds since the epoch). */
  async removeUnused(before: number): Promise<void> {
    for (const name of (await readdir(this.#dir)).filter(PartialLayers.isPartial)) {
      const digest = name.slice(0, -SUFFIX.length);
      if (!this.#take(digest)) continue;
      try {
        const found = await ifThere(stat(this.#pathOf(digest)));
        if (found !== undefined && found.mtimeMs < before) await rm(this.#pathOf(digest), { force: true });
      } finally {
        this.#busy.delete(digest);
      }
    }
  }

  #take(digest: string): boolean {
    if (this.#busy.has(digest)) return false;
    this.#busy.add(digest);
    return true;
  }

  async #expect(digest: string, offset: number): Promise<void> {
    const size = (await this.size(digest)) ?? 0;
    if (offset === 0 || offset === size) return;
    throw wrongOffset(digest, size, offset);
  }

  #pathOf(digest: string): string {
    return join(this.#dir, digest + SUFFIX);
  }
}

/** Resolves the SHA-256 of the whole file. Throws TOO_LARGE as soon as it has more than `maxBytes`. */
async function append(path: string, offset: number, bytes: Readable, maxBytes: number): Promise<string> {
  const hash = createHash("sha256");
  const file = await open(path, offset === 0 ? "w" : "a", 0o600);
  try {
    if (offset > 0) await hashFile(path, hash);
    await appendAll(file, offset, bytes, maxBytes, hash);
    await file.sync();
  } finally {
    await file.close();
  }
  return hash.digest("hex");
}

async function hashFile(path: string, hash: Hash): Promise<void> {
  for await (const chunk of createReadStream(path, { highWaterMark: LAYER_READ_BYTES })) hash.update(chunk);
}

/** One chunk after the other: when it returns or throws, nothing is being written any more. */
async function appendAll(file: FileHandle, offset: number, bytes: Readable, maxBytes: number, hash: Hash) {
  let size = offset;
  for await (const chunk of bytes as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw layerTooLarge(maxBytes);
    hash.update(chunk);
    await file.appendFile(chunk);
  }
}

function diskFull(cause: unknown): SvcError {
  return new SvcError("STORAGE_FULL", "The platform's disk is full: the layer was not stored.", {
    help: "Make room below the platform's data directory and upload it again.",
    cause,
  });
}
