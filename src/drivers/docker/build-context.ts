/** What the engine gets to build an image of: single files, and folders without what Python leaves behind. */
import { readdir, readlink, stat } from "node:fs/promises";
import path from "node:path";
import type { TarEntry } from "../../lib/tar-pack.ts";

type Part =
  | { readonly name: string; readonly content: Uint8Array }
  /** A folder that is not there counts as empty. */
  | { readonly name: string; readonly dir: string };

export async function* folderEntries(parts: readonly Part[]): AsyncGenerator<TarEntry> {
  for (const part of parts) {
    if ("content" in part) yield part;
    else yield* walk(part.name, part.dir);
  }
}

async function* walk(name: string, dir: string): AsyncGenerator<TarEntry> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const inside = `${name}/${entry.name}`;
    const file = path.join(dir, entry.name);
    if (entry.name === "__pycache__") continue;
    if (entry.isDirectory()) yield* walk(inside, file);
    else if (entry.isSymbolicLink()) yield { name: inside, linkTo: await readlink(file) };
    else if (entry.isFile()) {
      const { size, mode } = await stat(file);
      yield { name: inside, file, size, executable: (mode & 0o111) !== 0 };
    }
  }
}
