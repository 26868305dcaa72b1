/**
 * Compressed layers by digest, and small records that say which layer an input gave. Shared by all projects of a
 * user. Files appear whole or not at all, so builds may run side by side.
 */
import { createHash } from "node:crypto";
import { createWriteStream, readFileSync, statSync } from "node:fs";
import { mkdir, readdir, rename, rm, utimes } from "node:fs/promises";
import path from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SOURCE_LAYERS_KEPT } from "../domain/limits.ts";
import { gzipMembers } from "../lib/gzip-members.ts";
import { packTar, type TarEntry } from "../lib/tar-pack.ts";
import { temporaryName, writeFileAtomic } from "../lib/write-file-atomic.ts";

export interface CachedLayer {
  readonly digest: string;
  readonly sizeBytes: number;
  /** Compressed bytes. */
  readonly path: string;
}

export type RecordKind = "sources" | "dependencies" | "artifacts" | "file-hashes";

export class LayerCache {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = path.resolve(dir);
  }

  layerPath(digest: string): string {
    return path.join(this.#dir, "layers", `${digest}.tar.gz`);
  }

  /** The layer when it is there in its full size. */
  find(digest: string, sizeBytes: number): CachedLayer | undefined {
    const file = this.layerPath(digest);
    try {
      return statSync(file).size === sizeBytes ? { digest, sizeBytes, path: file } : undefined;
    } catch {
      return undefined;
    }
  }

  /** Packs, compresses and stores. */
  async write(entries: Iterable<TarEntry> | AsyncIterable<TarEntry>, level: number): Promise<CachedLayer> {
    await mkdir(path.join(this.#dir, "layers"), { recursive: true });
    const temporary = temporaryName(path.join(this.#dir, "layers", "new"));
    const hash = createHash("sha256");
    let sizeBytes = 0;
    const measure = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        done(null, chunk);
      },
    });
    try {
      await pipeline(Readable.from(gzipMembers(packTar(entries), level)), measure, createWriteStream(temporary));
      const digest = hash.digest("hex");
      await rename(temporary, this.layerPath(digest));
      return { digest, sizeBytes, path: this.layerPath(digest) };
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  record<T>(kind: RecordKind, key: string): T | undefined {
    try {
      return JSON.parse(readFileSync(this.#recordPath(kind, key), "utf8")) as T;
    } catch {
      return undefined;
    }
  }

  async remember(kind: RecordKind, key: string, value: unknown): Promise<void> {
    await writeFileAtomic(this.#recordPath(kind, key), JSON.stringify(value));
  }

  /** Old source layers go: one is made for every edit. */
  async pruneSources(): Promise<void> {
    const folder = path.join(this.#dir, "sources");
    const records = (await readdir(folder)).filter((name) => name.endsWith(".json"));
    if (records.length <= SOURCE_LAYERS_KEPT) return;
    const dated = records.map((name) => ({ name, usedAt: statSync(path.join(folder, name)).mtimeMs }));
    dated.sort((a, b) => b.usedAt - a.usedAt);
    const kept = new Set(dated.slice(0, SOURCE_LAYERS_KEPT).map(({ name }) => this.#digestOf(name)));
    for (const { name } of dated.slice(SOURCE_LAYERS_KEPT)) {
      const digest = this.#digestOf(name);
      await rm(path.join(folder, name), { force: true });
      if (digest !== undefined && !kept.has(digest)) await rm(this.layerPath(digest), { force: true });
    }
  }

  /** Marks a record as used now, for pruneSources. */
  async touch(kind: RecordKind, key: string): Promise<void> {
    const now = new Date();
    await utimes(this.#recordPath(kind, key), now, now).catch(() => {});
  }

  #digestOf(recordName: string): string | undefined {
    return this.record<{ digest: string }>("sources", recordName.replace(/\.json$/, ""))?.digest;
  }

  #recordPath(kind: RecordKind, key: string): string {
    return path.join(this.#dir, kind, `${key}.json`);
  }
}
