import { readdir } from "node:fs/promises";
import path from "node:path";
import { syncFolder } from "./durable-folder.ts";

/** All that is in the folder, at any depth, is on the disk, not only in the kernel. */
export async function syncTree(folder: string, atOnce: number): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() || entry.isDirectory());
  const rest = files.map((entry) => path.join(entry.parentPath, entry.name)).values();
  const work = async () => {
    // A file is synced as a folder is.
    for (const name of rest) await syncFolder(name);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  await syncFolder(folder);
}
