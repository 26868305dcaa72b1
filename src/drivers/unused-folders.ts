/** Removes folders that nobody needs any more from a folder of folders, each of which was made whole under its name. */
import { randomUUID } from "node:crypto";
import { renameSync, statSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import path from "node:path";

export class FolderUse {
  readonly #dir: string;
  readonly #usedAt = new Map<string, number>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Somebody is about to look for this folder, or to make it. */
  note(name: string): void {
    this.#usedAt.set(name, Date.now());
  }

  /**
   * Removes what is neither in `keep` nor was used or made since `before` (milliseconds since the epoch), also what a killed
   * platform left half made. Resolves the names. What is looked for meanwhile stays: a folder goes in one step, after a last look.
   */
  async removeUnused(keep: ReadonlySet<string>, before: number): Promise<string[]> {
    const names = await readdir(this.#dir).catch(() => []);
    const removed: string[] = [];
    for (const name of names) {
      const folder = path.join(this.#dir, name);
      if (keep.has(name) || (this.#usedAt.get(name) ?? 0) >= before || madeSince(folder, before)) continue;
      const trash = path.join(this.#dir, trashName());
      renameSync(folder, trash);
      this.#usedAt.delete(name);
      removed.push(name);
      await rm(trash, { recursive: true, force: true });
    }
    return removed;
  }
}

/** Of what is on its way out. */
export function trashName(): string {
  return `.trash-${randomUUID()}`;
}

function madeSince(folder: string, before: number): boolean {
  const found = statSync(folder, { throwIfNoEntry: false });
  return found === undefined || found.mtimeMs >= before;
}
