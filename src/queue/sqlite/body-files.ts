/**
 * Bodies too large for a row, as files named by their SHA-256. A row refers to one as `<SHA-256>.<bytes>`. A file is written before the row that names it and
 * removed after the last such row is gone; in between `hold` keeps a removal from overtaking a new row.
 */
import { randomUUID, webcrypto } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { BODIES_DROPPED_MAX_BYTES, SWEEP_BATCH_FILES } from "../../domain/limits.ts";
import { makeDurableFolder, syncFolder } from "../../lib/durable-folder.ts";
import { getOrInsert } from "../../lib/get-or-insert.ts";
import { sizeOf } from "../machine/job-row.ts";
import type { BodyPlace } from "../machine/stored-bodies.ts";

const INCOMING = "incoming";
const DIGEST = /^[0-9a-f]{64}$/;
const DIGEST_CHARS = 64;

export class BodyFiles {
  readonly #dir: string;
  readonly #sync: boolean;
  /** Digest → writers whose row is not committed yet, and readers. */
  readonly #held = new Map<string, number>();
  /** Folders that are there. */
  readonly #made = new Map<string, Promise<unknown>>();
  #candidates = new Set<string>();
  /** Of the candidates, those whose size is known. */
  #candidateBytes = 0;
  readonly #droppedMax: number;
  #removing: Promise<void> | undefined;
  #scanned = false;

  /** `sync`: every file is on the disk, not only in the kernel, before its row is written. */
  constructor(dir: string, sync: boolean, droppedMax = BODIES_DROPPED_MAX_BYTES) {
    this.#dir = dir;
    this.#droppedMax = droppedMax;
    this.#sync = sync;
    // What a crash left half written; nothing else writes there yet.
    rmSync(join(dir, INCOMING), { recursive: true, force: true });
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  /** Writes the bytes to the file of this reference to them, held until release(). */
  async hold(reference: string, bytes: Uint8Array): Promise<void> {
    this.keep(reference);
    try {
      await this.#write(digestOf(reference), bytes);
    } catch (error) {
      this.release(reference);
      throw error;
    }
  }

  /** Keeps the file until release() though its row goes: what it holds is to be read yet. */
  keep(reference: string): void {
    const digest = digestOf(reference);
    this.#held.set(digest, (this.#held.get(digest) ?? 0) + 1);
  }

  /** The row that names it is committed, or will never be; or it was read. */
  release(reference: string): void {
    const digest = digestOf(reference);
    const holders = (this.#held.get(digest) ?? 1) - 1;
    if (holders > 0) {
      this.#held.set(digest, holders);
      return;
    }
    this.#held.delete(digest);
    this.dropped(reference);
  }

  /** A row that named it is gone or changed. */
  dropped(reference: string): void {
    const digest = digestOf(reference);
    if (!this.#candidates.has(digest)) this.#candidateBytes += sizeOf(reference);
    this.#candidates.add(digest);
  }

  /** undefined when the file is missing or does not hold what its name says. A row that goes meanwhile takes nothing away. */
  async read(reference: string): Promise<Uint8Array | undefined> {
    const digest = digestOf(reference);
    this.keep(reference);
    try {
      const bytes = await readFile(this.#path(digest));
      return (await sha256(bytes)) === digest ? bytes : undefined;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    } finally {
      this.release(reference);
    }
  }

  /** Before a further file is written: what was dropped does not wait for the next sweep when it is much. */
  async makeRoom(isNamed: (digest: string) => boolean): Promise<void> {
    if (this.#candidateBytes > this.#droppedMax) {
      // What cannot be removed is a candidate again: the next sweep says so.
      this.#removing ??= this.#removeDropped(isNamed).then(() => {
        this.#removing = undefined;
      });
    }
    await this.#removing;
  }

  /**
   * Removes files that no row names. The first call looks at every file: a crash may have left some. A file that cannot be
   * removed is tried again by the next call; the first error is thrown when all others were looked at.
   */
  async sweep(isNamed: (digest: string) => boolean): Promise<void> {
    const errors = await this.#removeDropped(isNamed);
    if (!this.#scanned) {
      for (const folder of await this.#folders()) await this.#removeUnnamed(await digestsIn(folder), isNamed, errors);
      this.#scanned = true;
    }
    if (errors.length > 0) throw errors[0];
  }

  async #removeDropped(isNamed: (digest: string) => boolean): Promise<unknown[]> {
    const errors: unknown[] = [];
    const candidates = this.#candidates;
    this.#candidates = new Set();
    this.#candidateBytes = 0;
    await this.#removeUnnamed(candidates, isNamed, errors);
    return errors;
  }

  async #removeUnnamed(digests: Iterable<string>, isNamed: (digest: string) => boolean, errors: unknown[]) {
    let looked = 0;
    for (const digest of digests) {
      if (++looked % SWEEP_BATCH_FILES === 0) await setImmediate();
      if (this.#held.has(digest)) continue; // release() makes it a candidate again.
      try {
        // Checked and removed in one turn: no row can be written in between.
        if (!isNamed(digest)) rmSync(this.#path(digest), { force: true });
      } catch (error) {
        errors.push(error);
        this.#candidates.add(digest);
      }
    }
  }

  #path(digest: string): string {
    return join(this.#dir, digest.slice(0, 2), digest);
  }

  async #write(digest: string, bytes: Uint8Array): Promise<void> {
    const folder = join(this.#dir, digest.slice(0, 2));
    const temporary = join(this.#dir, INCOMING, randomUUID());
    await Promise.all([this.#make(folder), this.#make(join(this.#dir, INCOMING))]);
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
    if (this.#sync) await syncFolder(folder);
  }

  /** Once for each folder: a body that follows the first one finds it made, and its name on the disk. */
  #make(folder: string): Promise<unknown> {
    return getOrInsert(this.#made, folder, () => {
      const making = this.#sync ? makeDurableFolder(folder) : mkdir(folder, { recursive: true });
      making.catch(() => this.#made.delete(folder));
      return making;
    });
  }

  async #folders(): Promise<string[]> {
    const entries = await readdir(this.#dir, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && entry.name !== INCOMING)
      .map(({ name }) => join(this.#dir, name));
  }
}

/** `isNamed`: whether a row refers to the file with this digest. */
export function placeOf(core: { readonly files: BodyFiles; isNamed(digest: string): boolean }): BodyPlace {
  return {
    refer: (_, bytes) => referenceTo(bytes),
    async hold(reference, bytes) {
      await core.files.makeRoom(core.isNamed);
      await core.files.hold(reference, bytes);
    },
    release: (reference) => core.files.release(reference),
  };
}

/** How a row refers to the file with these bytes. Worked out off the event loop: a body may have 20 MB. */
export async function referenceTo(bytes: Uint8Array): Promise<string> {
  return `${await sha256(bytes)}.${bytes.byteLength}`;
}

function digestOf(reference: string): string {
  return reference.slice(0, DIGEST_CHARS);
}

async function digestsIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => DIGEST.test(name));
}

async function sha256(bytes: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)).toString("hex");
}
