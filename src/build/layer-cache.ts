/**
 * Compressed layers by digest, and small records that say which layer an input gave. Shared by all projects of a
 * user. Files appear whole or not at all, so builds may run side by side. Nothing is believed that somebody else put
 * there: records are signed, and so is the stamp of each layer whose bytes were seen to have its digest.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { type BigIntStats, createReadStream, readFileSync, rmSync, statSync } from "node:fs";
import { open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import path from "node:path";
import { CACHE_IN_USE_MS } from "../domain/limits.ts";
import { gzipMembers } from "../lib/gzip-members.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { makePrivateFile } from "../lib/private-file.ts";
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
type RecordKind = LayerKind | "artifacts" | "file-hashes" | "interpreters" | "scans" | "stamps";

/** A file changed this shortly before it was read may change again within one tick of its clock. */
export const CLOCK_TICK_MS = 2_000;

interface CachePlaces {
  readonly cacheDir: string;
  /** Holds the key of the records (cache-key.ts). */
  readonly configDir: string;
}

/** Key of the records that a project has one of. */
export function projectKey(projectDir: string): string {
  return createHash("sha256").update(path.resolve(projectDir)).digest("hex").slice(0, 32);
}

export class LayerCache {
  readonly #dir: string;
  readonly #records: SignedRecords;

  constructor({ cacheDir, configDir }: CachePlaces) {
    this.#dir = path.resolve(cacheDir);
    this.#records = new SignedRecords(this.#dir, cacheKey(configDir));
  }

  layerPath(digest: string): string {
    return path.join(this.#dir, "layers", `${digest}.tar.gz`);
  }

  /** The layer when its file has its digest. The bytes are read again only when the file is not the one that was looked at before. */
  async find(digest: string, sizeBytes: number): Promise<CachedLayer | undefined> {
    const file = this.layerPath(digest);
    try {
      const before = await stat(file, { bigint: true });
      if (before.size !== BigInt(sizeBytes)) return undefined;
      const isKnown = this.record("stamps", digest) === stampOf(before);
      if (!isKnown && !(await this.#verify(digest, before))) return undefined;
      return { digest, sizeBytes, path: file };
    } catch {
      return undefined;
    }
  }

  async #verify(digest: string, before: BigIntStats): Promise<boolean> {
    const readAt = Date.now();
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(this.layerPath(digest))) hash.update(chunk as Buffer);
    const after = await stat(this.layerPath(digest), { bigint: true });
    if (hash.digest("hex") !== digest || stampOf(after) !== stampOf(before)) return false;
    if (after.ctimeMs < readAt - CLOCK_TICK_MS) await this.remember("stamps", digest, stampOf(after));
    return true;
  }

  /** Packs, compresses and stores. */
  async write(
    entries: Iterable<TarEntry> | AsyncIterable<TarEntry>,
    level: number,
    signal?: AbortSignal,
  ): Promise<CachedLayer> {
    makeFolder(path.join(this.#dir, "layers"));
    const temporary = temporaryName(path.join(this.#dir, "layers", "new"));
    const hash = createHash("sha256");
    let sizeBytes = 0;
    const measured = async function* () {
      for await (const chunk of gzipMembers(packTar(entries), level)) {
        signal?.throwIfAborted();
        hash.update(chunk);
        sizeBytes += chunk.length;
        yield chunk;
      }
    };
    const output = await open(temporary, "wx");
    try {
      await output.writeFile(measured());
      const digest = hash.digest("hex");
      await rename(temporary, this.layerPath(digest));
      // Of the file that was written, not of what has its name by now.
      await this.remember("stamps", digest, stampOf(await output.stat({ bigint: true })));
      return { digest, sizeBytes, path: this.layerPath(digest) };
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    } finally {
      await output.close();
    }
  }

  record<T>(kind: RecordKind, key: string): T | undefined {
    return this.#records.read<T>(kind, key);
  }

  async remember(kind: RecordKind, key: string, value: unknown): Promise<void> {
    await this.#records.write(kind, key, value);
  }

  /** Marks a record as used now, for prune(). */
  async touch(kind: RecordKind, key: string): Promise<void> {
    const now = new Date();
    await utimes(this.#records.path(kind, key), now, now).catch(() => {});
  }

  /**
   * Keeps the records of a kind that were used last, and removes the layers that no kept record names. What was used
   * within the last hour stays: another build may be packing it.
   */
  async prune(kind: LayerKind, bounds: { readonly countMax: number; readonly bytesMax: number }): Promise<void> {
    const records = await this.#layerRecords(kind);
    records.sort((a, b) => b.usedMs - a.usedMs);
    let bytes = 0;
    let count = 0;
    const dropped = records.filter(({ layer, usedMs }) => {
      bytes += layer?.sizeBytes ?? 0;
      count += layer === undefined ? 0 : 1;
      const isUnneeded = layer === undefined || count > bounds.countMax || bytes > bounds.bytesMax;
      return isUnneeded && usedMs < Date.now() - CACHE_IN_USE_MS;
    });
    if (dropped.length === 0) return;
    for (const { key } of dropped) await rm(this.#records.path(kind, key), { force: true });
    const kept = await Promise.all(LAYER_KINDS.map((each) => this.#layerRecords(each)));
    const needed = new Set(kept.flat().map(({ layer }) => layer?.digest));
    for (const { layer } of dropped) {
      if (layer === undefined || needed.has(layer.digest)) continue;
      await rm(this.layerPath(layer.digest), { force: true });
      await rm(this.#records.path("stamps", layer.digest), { force: true });
    }
    await this.#removeAbandoned(needed);
  }

  /** `layer` is undefined where the record is not ours. */
  async #layerRecords(kind: LayerKind) {
    const names = await readdir(path.join(this.#dir, kind)).catch(() => []);
    return names
      .filter((name) => name.endsWith(".json"))
      .flatMap((name) => {
        const key = name.replace(/\.json$/, "");
        const layer = this.record<{ digest: string; sizeBytes: number }>(kind, key);
        const stat = statSync(this.#records.path(kind, key), { throwIfNoEntry: false });
        return stat === undefined ? [] : [{ key, layer, usedMs: stat.mtimeMs }];
      });
  }

  /** Halves of layers that a killed build left, and layers that no record of ours names. */
  async #removeAbandoned(needed: ReadonlySet<string | undefined>): Promise<void> {
    const folder = path.join(this.#dir, "layers");
    for (const name of await readdir(folder)) {
      if (needed.has(name.replace(/\.tar\.gz$/, ""))) continue;
      const file = path.join(folder, name);
      const stat = statSync(file, { throwIfNoEntry: false });
      if (stat !== undefined && stat.mtimeMs < Date.now() - CACHE_IN_USE_MS) await rm(file, { force: true });
    }
  }
}

function stampOf({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${size}-${mtimeNs}-${ctimeNs}-${ino}`;
}

/** Small files by kind and key, each with an HMAC over kind, key and content: one that somebody else wrote, or moved, is not there. */
class SignedRecords {
  readonly #dir: string;
  readonly #key: Uint8Array;

  constructor(dir: string, key: Uint8Array) {
    this.#dir = dir;
    this.#key = key;
  }

  path(kind: string, key: string): string {
    return path.join(this.#dir, kind, `${key}.json`);
  }

  read<T>(kind: string, key: string): T | undefined {
    try {
      const { mac, record } = JSON.parse(readFileSync(this.path(kind, key), "utf8")) as { mac: string; record: T };
      const right = this.#mac(kind, key, JSON.stringify(record));
      return timingSafeEqual(Buffer.from(mac, "base64url"), right) ? record : undefined;
    } catch {
      return undefined;
    }
  }

  async write(kind: string, key: string, record: unknown): Promise<void> {
    const text = JSON.stringify(record);
    const mac = this.#mac(kind, key, text).toString("base64url");
    await writeFileAtomic(this.path(kind, key), `{"mac":"${mac}","record":${text}}`);
  }

  #mac(kind: string, key: string, text: string): Buffer {
    return createHmac("sha256", this.#key)
      .update(JSON.stringify([kind, key]))
      .update(text)
      .digest();
  }
}

/** The key that tells a user's own records in the build cache from those that somebody else put there. */
const KEY_BYTES = 32;

/** `<config>/cache.key`, made at first use. Where none can be kept it lasts for this build, to which the cache is empty. */
function cacheKey(configDir: string): Uint8Array {
  const file = path.join(configDir, "cache.key");
  try {
    return readKey(file) ?? newKey(file);
  } catch {
    return randomBytes(KEY_BYTES);
  }
}

/** Not one that others could have read. */
function readKey(file: string): Uint8Array | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined || (stat.mode & 0o077) !== 0 || stat.size !== KEY_BYTES) return undefined;
  return readFileSync(file);
}

function newKey(file: string): Uint8Array {
  makeFolder(path.dirname(file), 0o700);
  if (readKey(file) === undefined) rmSync(file, { force: true });
  makePrivateFile(file, randomBytes(KEY_BYTES));
  const key = readKey(file);
  if (key === undefined) throw new Error(`${file} is open to others`);
  return key;
}
