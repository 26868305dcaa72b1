import { mkdirSync, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";

/**
 * The folder and those above it, unless they are there. For a path that a user chose: Node's own `recursive` never
 * returns where a file system answers ENOENT to every new folder, as /proc does.
 */
export function makeFolder(folder: string, mode = 0o777): void {
  if (isFolder(folder)) return;
  const above = path.dirname(folder);
  if (above !== folder) makeFolder(above, mode);
  try {
    mkdirSync(folder, { mode });
  } catch (error) {
    if (!isFolder(folder)) throw error; // Somebody else may have made it meanwhile.
  }
}

/** The same for a disk that may not answer: nothing else waits for it. */
export async function makeFolderAside(folder: string, mode = 0o777): Promise<void> {
  const failed = async (error: NodeJS.ErrnoException) => {
    const above = path.dirname(folder);
    if (error.code === "EEXIST") return; // Whether it is a folder, whoever uses it is told.
    if (error.code !== "ENOENT" || above === folder) throw error;
    await makeFolderAside(above, mode);
    await mkdir(folder, { mode }).catch((again: NodeJS.ErrnoException) => {
      if (again.code !== "EEXIST") throw again;
    });
  };
  await mkdir(folder, { mode }).catch(failed);
}

function isFolder(name: string): boolean {
  return statSync(name, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
