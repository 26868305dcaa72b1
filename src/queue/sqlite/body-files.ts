/**
 * Bodies too large for a row, as files named by their SHA-256. A file is written before the row that names it and
 * removed after the last such row is gone; in between `hold` keeps a removal from overtaking a new row.
 */
import { randomUUID, webcrypto } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

const INCOMING = "incoming";
const DIGEST = /^[0-9a-f]{64}$/;

export class BodyFiles {
  readonly #dir: string;
  readonly #sync: boolean;
  /** Digest → writers whose row is not committed yet. */
  readonly #held = new Map<string, number>();
  #candidates = new Set<string>();
  #scanned = false;

  /** `sync`: every file is on the disk, not only in the kernel, before its row is written. */
  constructor(dir: string, sync: boolean) {
    this.#dir = dir;
    this.#sync = sync;
    // What a crash left half written; nothing else writes there yet.
    rmSync(join(dir, INCOMING), { recursive: true, force: true });
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  /** Writes the bytes and resolves their digest, held until release(). */
  async hold(bytes: Uint8Array): Promise<string> {
    const digest = await sha256(bytes);
    this.#held.set(digest, (this.#held.get(digest) ?? 0) + 1);
    try {
      await this.#write(digest, bytes);
    } catch (error) {
      this.release(digest);
      throw error;
    }
    return digest;
  }

  /** The row that names it is committed, or will never be. */
  release(digest: string): void {
    const holders = (this.#held.get(digest) ?? 1) - 1;
    if (holders > 0) {
      this.#held.set(digest, holders);
      return;
    }
    this.#held.delete(digest);
    this.#candidates.add(digest);
  }

  /** A row that named it is gone or changed. */
  dropped(digest: string): void {
    this.#candidates.add(digest);
  }

  /** undefined when the file is missing or does not hold what its name says. */
  async read(digest: string): Promise<Uint8Array | undefined> {
    try {
      const bytes = await readFile(this.#path(digest));
      return (await sha256(bytes)) === digest ? bytes : undefined;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Removes files that no row names. The first call looks at every file: a crash may have left some. */
  async sweep(isNamed: (digest: string) => boolean): Promise<void> {
    if (!this.#scanned) {
      this.#scanned = true;
      for (const digest of await this.#all()) this.#candidates.add(digest);
    }
    const candidates = this.#candidates;
    this.#candidates = new Set();
    for (const digest of candidates) {
      // Checked and removed in one turn: no row can be written in between.
      if (!this.#held.has(digest) && !isNamed(digest)) rmSync(this.#path(digest), { force: true });
    }
  }

  #path(digest: string): string {
    return join(this.#dir, digest.slice(0, 2), digest);
  }

  async #write(digest: string, bytes: Uint8Array): Promise<void> {
    const folder = join(this.#dir, digest.slice(0, 2));
    const temporary = join(this.#dir, INCOMING, randomUUID());
    await Promise.all([mkdir(folder, { recursive: true }), mkdir(join(this.#dir, INCOMING), { recursive: true })]);
    try {
      const file = await open(temporary, "wx", 0o600);
      try {
        await file.writeFile(bytes);
        if (this.#sync) await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, this.#path(digest));
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    if (this.#sync) await syncDirectory(folder);
  }

  async #all(): Promise<string[]> {
    const entries = await readdir(this.#dir, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile() && DIGEST.test(entry.name)).map((entry) => entry.name);
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Off the event loop: a body may have 20 MB. */
async function sha256(bytes: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)).toString("hex");
}
