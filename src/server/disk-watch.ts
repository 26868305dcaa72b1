/**
 * Watches over the disk, the file descriptors and the database's room that the platform needs:
 *
 *   a write failed for want of them ──▶ lacking, said once ──looked at every half second──▶ they are back, said once
 */
import { type StatsFs, statfsSync } from "node:fs";
import { type FileHandle, open, rm, statfs } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { STORAGE_CHECK_MS, STORAGE_PROBE_BYTES, STORAGE_PROBE_FILES, STORAGE_ROOM_BYTES } from "../domain/limits.ts";
import { type Lack, lackOf, NotWritten, type StorageWatch } from "../domain/storage.ts";

export interface DiskWatchHooks {
  began(lack: Lack, cause: unknown): void;
  ended(lackedMs: number): void;
  /** Rejects as long as the database has no room. */
  tryDatabase?(): Promise<void>;
}

export class DiskWatch implements StorageWatch {
  readonly #dir: string;
  readonly #hooks: DiskWatchHooks;
  readonly #listeners: (() => void)[] = [];
  #lacking: { readonly lack: Lack; readonly since: number; readonly again?: () => Promise<void> } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #waiting: (() => void)[] = [];
  #closed = false;

  constructor(dir: string, hooks: DiskWatchHooks) {
    this.#dir = dir;
    this.#hooks = hooks;
  }

  get lack(): Lack | undefined {
    return this.#lacking?.lack;
  }

  noticed(error: unknown): Lack | undefined {
    const thrown = lackOf(error);
    if (thrown === undefined || this.#lacking !== undefined) return thrown;
    const lack = thrown === "disk" && this.#isFull() ? "room" : thrown;
    const again = error instanceof NotWritten ? error.again : undefined;
    this.#lacking = { lack, since: performance.now(), again };
    this.#hooks.began(lack, error);
    this.#look();
    return lack;
  }

  async keep<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      if (this.#lacking !== undefined && !this.#closed) {
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
      try {
        return await work();
      } catch (error) {
        // Of a database each try itself waits a while.
        const isAway = error instanceof SvcError && error.code === "DATABASE_AWAY";
        if (this.#closed || (!isAway && this.noticed(error) === undefined)) throw error;
      }
    }
  }

  onReturn(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Nobody waits any longer: each tries once more and has to live with the outcome. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const go of this.#waiting.splice(0)) go();
  }

  /** SQLite does not say of every write why it failed. */
  #isFull(): boolean {
    try {
      return !hasRoom(statfsSync(this.#dir));
    } catch {
      return false;
    }
  }

  #look(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#isBack().then(
        (back) => (back ? this.#end() : this.#look()),
        () => this.#look(),
      );
    }, STORAGE_CHECK_MS);
  }

  #end(): void {
    const lacking = this.#lacking;
    if (lacking === undefined || this.#closed) return;
    this.#lacking = undefined;
    this.#hooks.ended(performance.now() - lacking.since);
    for (const listener of this.#listeners) listener();
    for (const go of this.#waiting.splice(0)) go();
  }

  async #isBack(): Promise<boolean> {
    if (this.#lacking?.lack !== "database") {
      if (!(await this.#isDiskBack())) return false;
      await this.#lacking?.again?.();
      return true;
    }
    await this.#hooks.tryDatabase?.();
    return true;
  }

  /** Free room alone does not tell: a quota may be used up. */
  async #isDiskBack(): Promise<boolean> {
    if (!hasRoom(await statfs(this.#dir))) return false;
    const probe = path.join(this.#dir, "room-probe");
    const files: FileHandle[] = [];
    try {
      for (let n = 0; n < STORAGE_PROBE_FILES; n++) files.push(await open(probe, "w", 0o600));
      await files[0]!.writeFile(Buffer.alloc(STORAGE_PROBE_BYTES));
      return true;
    } finally {
      await Promise.all(files.map((file) => file.close()));
      await rm(probe, { force: true });
    }
  }
}

function hasRoom({ bavail, bsize }: StatsFs): boolean {
  return bavail * bsize >= STORAGE_ROOM_BYTES;
}
