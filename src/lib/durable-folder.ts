import { mkdir, open } from "node:fs/promises";
import path from "node:path";

/** Makes the folder and those above it that are missing; what is new has its name on the disk, not only in the kernel. */
export async function makeDurableFolder(folder: string, mode?: number): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode });
  if (first === undefined) return;
  for (let made = folder; ; made = path.dirname(made)) {
    await syncFolder(path.dirname(made));
    if (path.relative(made, first) === "") return;
  }
}

/** The names in it are on the disk. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
