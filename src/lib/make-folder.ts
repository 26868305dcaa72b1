import { mkdirSync, statSync } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
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
export async function makeFolderAside(folder: string): Promise<void> {
  const isThere = () =>
    stat(folder).then(
      (found) => found.isDirectory(),
      () => false,
    );
  if (await isThere()) return;
  const above = path.dirname(folder);
  if (above !== folder) await makeFolderAside(above);
  await mkdir(folder).catch(async (error) => {
    if (!(await isThere())) throw error;
  });
}

function isFolder(name: string): boolean {
  return statSync(name, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
