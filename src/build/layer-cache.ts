/**
 * Compressed layers by digest, and small records that say which layer an input gave. Shared by all projects of a
 * user. Files appear whole or not at all, so builds may run side by side.
 */
import { createHash } from "node:crypto";
import { createWriteStream, readFileSync, statSync } from "node:fs";
import { readdir, rename, rm, utimes } from "node:fs/promises";
import path from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CACHE_IN_USE_MS } from "../domain/limits.ts";
import { gzipMembers } from "../lib/gzip-members.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { packTar, type TarEntry } from "../lib/tar-pack.ts";
import { temporaryName, writeFileAtomic } from "../lib/write-file-atomic.ts";

export interface CachedLayer {
  readonly digest: string;
  readonly sizeBytes: number;
  /** Compressed bytes. */
  readonly path: string;
}

const LAYER_KINDS = ["sources", "dependencies"] as const;
type LayerKind = (typeof LAYER_KINDS)[number];
export type RecordKind = LayerKind | "artifacts" | "file-hashes" | "syntax";

/** Key of the records that a project has one of. */
export function projectKey(projectDir: string): string {
  return createHash("sha256").update(path.resolve(projectDir)).digest("hex").slice(0, 32);
}

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
    makeFolder(path.join(this.#dir, "layers"));
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

  /** Marks a record as used now, for prune(). */
  async touch(kind: RecordKind, key: string): Promise<void> {
    const now = new Date();
    await utimes(this.#recordPath(kind, key), now, now).catch(() => {});
  }

  /**
   * Keeps the records of a kind that were used last, and removes the layers that no kept record names. What was used
   * within the last hour stays: another build may be packing it.
   */
  async prune(kind: LayerKind, bounds: { readonly countMax: number; readonly bytesMax: number }): Promise<void> {
    const records = await this.#layerRecords(kind);
    records.sort((a, b) => b.usedMs - a.usedMs);
    let bytes = 0;
    const dropped = records.filter(({ sizeBytes, usedMs }, i) => {
      bytes += sizeBytes;
      return (i >= bounds.countMax || bytes > bounds.bytesMax) && usedMs < Date.now() - CACHE_IN_USE_MS;
    });
    if (dropped.length === 0) return;
    for (const { key } of dropped) await rm(this.#recordPath(kind, key), { force: true });
    const kept = await Promise.all(LAYER_KINDS.map((each) => this.#layerRecords(each)));
    const needed = new Set(kept.flat().map(({ digest }) => digest));
    for (const { digest } of dropped) if (!needed.has(digest)) await rm(this.layerPath(digest), { force: true });
    await this.#removeAbandoned();
  }

  async #layerRecords(kind: LayerKind) {
    const names = await readdir(path.join(this.#dir, kind)).catch(() => []);
    return names
      .filter((name) => name.endsWith(".json"))
      .flatMap((name) => {
        const key = name.replace(/\.json$/, "");
        const record = this.record<{ digest: string; sizeBytes: number }>(kind, key);
        const stat = statSync(this.#recordPath(kind, key), { throwIfNoEntry: false });
        if (record === undefined || stat === undefined) return [];
        return [{ key, digest: record.digest, sizeBytes: record.sizeBytes, usedMs: stat.mtimeMs }];
      });
  }

  /** Halves of layers that a killed build left. */
  async #removeAbandoned(): Promise<void> {
    const folder = path.join(this.#dir, "layers");
    for (const name of await readdir(folder)) {
      const file = path.join(folder, name);
      const stat = name.endsWith(".tmp") ? statSync(file, { throwIfNoEntry: false }) : undefined;
      if (stat !== undefined && stat.mtimeMs < Date.now() - CACHE_IN_USE_MS) await rm(file, { force: true });
    }
  }

  #recordPath(kind: RecordKind, key: string): string {
    return path.join(this.#dir, kind, `${key}.json`);
  }
}
