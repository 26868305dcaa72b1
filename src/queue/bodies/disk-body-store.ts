/** Bodies as files: <dir>/<name>, written beside and renamed, so that what has its name is whole. */
import { randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rm, rmdir } from "node:fs/promises";
import path from "node:path";
import { BODY_DELETES_AT_ONCE } from "../../domain/limits.ts";
import { makeDurableFolder, syncFolder } from "../../lib/durable-folder.ts";
import { ifThere } from "../../lib/if-there.ts";
import { readWhole, writeWhole } from "../../lib/whole-file.ts";
import { type BodyStore, DAY, dayOf, deleteAll } from "./body-store.ts";

const INCOMING = "incoming";
/** A folder may be removed, empty, between making it and using it. */
const TRIES_MAX = 5;

export class DiskBodyStore implements BodyStore {
  readonly #dir: string;
  readonly #sync: boolean;

  private constructor(dir: string, sync: boolean) {
    this.#dir = dir;
    this.#sync = sync;
  }

  /** Makes `dir`. `sync`: every body is on the disk, not only in the kernel, when its put resolves. */
  static async open(dir: string, sync: boolean): Promise<DiskBodyStore> {
    // What a crash left half written; nothing else writes there yet.
    await rm(path.join(dir, INCOMING), { recursive: true, force: true });
    await makeDurableFolder(path.join(dir, INCOMING), 0o700);
    return new DiskBodyStore(dir, sync);
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const temporary = path.join(this.#dir, INCOMING, randomUUID());
    try {
      await writeWhole(temporary, bytes, this.#sync);
      await this.#place(temporary, path.join(this.#dir, name));
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async get(name: string): Promise<Uint8Array | undefined> {
    return ifThere(readWhole(path.join(this.#dir, name)));
  }

  async delete(names: readonly string[]): Promise<void> {
    await deleteAll(names, BODY_DELETES_AT_ONCE, (name) => rm(path.join(this.#dir, name), { force: true }));
    for (const job of new Set(names.map((name) => path.dirname(path.join(this.#dir, name))))) {
      if (await removedEmpty(job)) await removedEmpty(path.dirname(job));
    }
  }

  async *list(before: number): AsyncGenerator<string> {
    const days = (await readdir(this.#dir)).filter((day) => DAY.test(day) && day < dayOf(before));
    for (const day of days.sort()) {
      for (const job of (await ifThere(readdir(path.join(this.#dir, day)))) ?? []) {
        for (const part of (await ifThere(readdir(path.join(this.#dir, day, job)))) ?? [])
          yield `${day}/${job}/${part}`;
      }
    }
  }

  async #place(temporary: string, target: string): Promise<void> {
    const folder = path.dirname(target);
    for (let tries = 1; ; tries++) {
      try {
        if (this.#sync) await makeDurableFolder(folder, 0o700);
        else await mkdir(folder, { recursive: true, mode: 0o700 });
        await rename(temporary, target);
        if (this.#sync) await syncFolder(folder);
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT" || tries === TRIES_MAX) throw error;
      }
    }
  }
}

async function removedEmpty(folder: string): Promise<boolean> {
  try {
    await rmdir(folder);
    return true;
  } catch {
    return false; // It holds more, or is gone.
  }
}
