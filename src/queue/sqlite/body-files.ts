/**
 * Bodies too large for a row, as files with a name each. A row refers to one as `<name>.<CRC-32>.<bytes>`; those of earlier versions are named by their
 * SHA-256, and referred to as `<SHA-256>.<bytes>`. A file is written before the row that names it and removed after that row is gone;
 * in between `hold` keeps a removal from overtaking a new row. No name is given twice: what no row names none will.
 */
import { randomUUID, webcrypto } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { mkdir, readdir, rename, rm, unlink } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { BODIES_DROPPED_MAX_BYTES, SWEEP_BATCH_FILES } from "../../domain/limits.ts";
import { isOfSystem, lackOf, NotWritten } from "../../domain/storage.ts";
import { makeDurableFolder, syncFolder } from "../../lib/durable-folder.ts";
import { getOrInsert } from "../../lib/get-or-insert.ts";
import { ifThere } from "../../lib/if-there.ts";
import { readWhole, writeWhole } from "../../lib/whole-file.ts";
import { sizeOf } from "../machine/job-row.ts";
import type { BodyPlace } from "../machine/stored-bodies.ts";

const INCOMING = "incoming";
const PROBE = Buffer.alloc(1);
const NAME = /^([0-9a-f]{32}|[0-9a-f]{64})$/;

export class BodyFiles {
  readonly #dir: string;
  readonly #sync: boolean;
  /** Name → writers whose row is not committed yet, and readers. */
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
      await this.#write(nameOf(reference), bytes);
    } catch (error) {
      this.release(reference);
      throw isOfSystem(error) ? new NotWritten(error, this.#tryToWrite) : error;
    }
  }

  /** Keeps the file until release() though its row goes: what it holds is to be read yet. */
  keep(reference: string): void {
    const name = nameOf(reference);
    this.#held.set(name, (this.#held.get(name) ?? 0) + 1);
  }

  /** The row that names it is committed, or will never be; or it was read. */
  release(reference: string): void {
    const name = nameOf(reference);
    const holders = (this.#held.get(name) ?? 1) - 1;
    if (holders > 0) {
      this.#held.set(name, holders);
      return;
    }
    this.#held.delete(name);
    this.dropped(reference);
  }

  /** A row that named it is gone or changed. */
  dropped(reference: string): void {
    const name = nameOf(reference);
    if (!this.#candidates.has(name)) this.#candidateBytes += sizeOf(reference);
    this.#candidates.add(name);
  }

  /** As release, of a file that no row may name: it takes no room until a sweep, which does not come as long as the disk is full. */
  discard(reference: string, isNamed: (name: string) => boolean): void {
    this.release(reference);
    const name = nameOf(reference);
    try {
      if (!this.#held.has(name) && !isNamed(name)) rmSync(this.#path(name), { force: true });
    } catch {
      // The next sweep looks at it.
    }
  }

  /**
   * undefined when the file is missing, cannot be read though its folder is well, or does not hold what its name says. A row that
   * goes meanwhile takes nothing away.
   */
  async read(reference: string): Promise<Uint8Array | undefined> {
    this.keep(reference);
    try {
      const bytes = await ifThere(readWhole(this.#path(nameOf(reference))));
      return bytes !== undefined && (await isWhole(bytes, reference)) ? bytes : undefined;
    } catch (error) {
      if (!isOfSystem(error) || lackOf(error) === "descriptors") throw error;
      await this.#tryToWrite().catch(() => {
        throw new NotWritten(error, this.#tryToWrite);
      });
      return undefined;
    } finally {
      this.release(reference);
    }
  }

  /** Before a further file is written: what was dropped does not wait for the next sweep when it is much. */
  async makeRoom(isNamed: (name: string) => boolean): Promise<void> {
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
  async sweep(isNamed: (name: string) => boolean): Promise<void> {
    const errors = await this.#removeDropped(isNamed);
    if (!this.#scanned) {
      for (const folder of await this.#folders()) await this.#removeUnnamed(await namesIn(folder), isNamed, errors);
      this.#scanned = true;
    }
    if (errors.length > 0) throw errors[0];
  }

  async #removeDropped(isNamed: (name: string) => boolean): Promise<unknown[]> {
    const errors: unknown[] = [];
    const candidates = this.#candidates;
    this.#candidates = new Set();
    this.#candidateBytes = 0;
    await this.#removeUnnamed([...candidates], isNamed, errors);
    return errors;
  }

  async #removeUnnamed(names: readonly string[], isNamed: (name: string) => boolean, errors: unknown[]) {
    const again = (name: string, error: unknown) => {
      errors.push(error);
      this.#candidates.add(name);
    };
    const isGone = (name: string): boolean => {
      try {
        return !this.#held.has(name) && !isNamed(name); // release() makes what is held a candidate again.
      } catch (error) {
        again(name, error);
        return false;
      }
    };
    for (let start = 0; start < names.length; start += SWEEP_BATCH_FILES) {
      await setImmediate();
      const gone = names.slice(start, start + SWEEP_BATCH_FILES).filter(isGone);
      const removed = gone.map((name) => ifThere(unlink(this.#path(name))).catch((error) => again(name, error)));
      await Promise.all(removed);
    }
  }

  #path(name: string): string {
    return join(this.#dir, name.slice(0, 2), name);
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    try {
      await this.#writeInto(name, bytes);
    } catch (error) {
      this.#made.clear();
      // Somebody removed a folder: it is made again.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      await this.#writeInto(name, bytes);
    }
  }

  /** Rejects as long as no file can be written. */
  readonly #tryToWrite = async (): Promise<void> => {
    const name = nameOf(referenceTo(PROBE));
    await this.#write(name, PROBE);
    await unlink(this.#path(name));
  };

  async #writeInto(name: string, bytes: Uint8Array): Promise<void> {
    const folder = join(this.#dir, name.slice(0, 2));
    const temporary = join(this.#dir, INCOMING, name);
    await Promise.all([this.#make(folder), this.#make(join(this.#dir, INCOMING))]);
    try {
      await writeWhole(temporary, bytes, this.#sync);
      await rename(temporary, this.#path(name));
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

/** `isNamed`: whether a row refers to the file of this name. */
export function placeOf(core: { readonly files: BodyFiles; isNamed(name: string): boolean }): BodyPlace {
  return {
    refer: async (_, bytes) => referenceTo(bytes),
    async hold(reference, bytes) {
      await core.files.makeRoom(core.isNamed);
      await core.files.hold(reference, bytes);
    },
    release(reference, failed) {
      if (failed) core.files.discard(reference, core.isNamed);
      else core.files.release(reference);
    },
  };
}

/** How a row refers to a file with these bytes; each time to another. */
export function referenceTo(bytes: Uint8Array): string {
  return reference(crc32(bytes), bytes.byteLength);
}

/** As a row has it of a body that is lost. */
export function referenceToNothing(byteLength: number): string {
  return reference(0, byteLength);
}

function reference(checksum: number, byteLength: number): string {
  return `${randomUUID().replaceAll("-", "")}.${checksum.toString(16)}.${byteLength}`;
}

function nameOf(reference: string): string {
  return reference.slice(0, reference.indexOf("."));
}

/** They are what was written: a power loss, or a disk, may have changed them. */
async function isWhole(bytes: Uint8Array, reference: string): Promise<boolean> {
  const [name, checksum, byteLength] = reference.split(".");
  if (byteLength === undefined) return (await sha256(bytes)) === name;
  return bytes.byteLength === Number(byteLength) && crc32(bytes).toString(16) === checksum;
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => NAME.test(name));
}

async function sha256(bytes: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)).toString("hex");
}
