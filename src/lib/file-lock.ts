/** A lock among processes that the kernel keeps: it goes with whoever is killed, so none is ever taken from somebody who lives. */
import { closeSync, existsSync, openSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const LOOK_MS = 20;

/**
 * Does `work` while nobody else does that has given the same file, which is made and stays. Throws FileHeld when somebody has it for `maxMs`.
 * On a file system without locks nobody is kept out.
 */
export async function withFileLock<T>(file: string, maxMs: number, work: () => Promise<T>): Promise<T> {
  const [{ DatabaseSync }, { isLockedError }] = await Promise.all([import("node:sqlite"), import("./sqlite.ts")]);
  // One that is there is not opened: its end would end all locks of this process on the file, as POSIX has it.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    const until = performance.now() + maxMs;
    for (;;) {
      try {
        database.exec("BEGIN EXCLUSIVE");
        break;
      } catch (error) {
        if (!isLockedError(error)) break;
        if (performance.now() > until) throw new FileHeld(`Another process has held ${file} for ${maxMs / 1000} s.`);
      }
      await delay(LOOK_MS);
    }
    return await work();
  } finally {
    database.close();
  }
}

export class FileHeld extends Error {}
