/**
 * A folder of folders that are written without waiting for the disk. As long as the machine is up all of them are whole; after
 * a power cut files of theirs may be empty for ever, and nobody can tell which. So the folder has the machine's boot id in it,
 * and what is there under another one goes: it can be made again.
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, utimes } from "node:fs/promises";
import path from "node:path";
import { makeDurableFolder, syncFolder } from "../lib/durable-folder.ts";
import { trashName } from "./unused-folders.ts";

export const BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id";
/** Its name in the folder. */
export const BOOT_MARK = ".boot";

/**
 * Call before anything is written into the folder or read from it. Without a boot id nothing happens. A folder that has no mark
 * yet keeps what it has: an earlier version filled it, and its workers may run on.
 */
export async function emptyAfterOtherBoot(dir: string, bootIdFile = BOOT_ID_FILE): Promise<void> {
  const boot = await textOf(bootIdFile);
  if (boot === undefined || boot === "") return;
  await makeDurableFolder(dir);
  const before = await textOf(path.join(dir, BOOT_MARK));
  if (before === boot) return;
  if (before !== undefined) await moveAway(dir);
  await writeMark(dir, boot);
}

/** In the background: a gigabyte of small files takes its time. What is left of it goes as what nobody uses. */
async function moveAway(dir: string): Promise<void> {
  const trash = path.join(dir, trashName());
  const names = (await readdir(dir)).filter((name) => name !== BOOT_MARK);
  if (names.length === 0) return;
  await mkdir(trash);
  for (const name of names) await rename(path.join(dir, name), path.join(trash, name));
  await utimes(trash, 0, 0);
  // Else a power cut now could bring them back beside the new mark.
  await syncFolder(dir);
  rm(trash, { recursive: true, force: true }).catch(() => {});
}

async function writeMark(dir: string, boot: string): Promise<void> {
  const temporary = path.join(dir, `.boot-${randomUUID()}`);
  const file = await open(temporary, "wx");
  try {
    await file.writeFile(boot);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path.join(dir, BOOT_MARK));
  await syncFolder(dir);
}

async function textOf(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
