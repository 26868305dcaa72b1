import type { Dirent } from "node:fs";
import path from "node:path";

type List = (folder: string) => Promise<readonly Dirent[]>;

/**
 * Names below `root` that are `depth` folders deep, relative to it: 1 is what lies in it itself. Hidden ones are left out, links are
 * not entered. `list`: what a folder holds. A pattern for node:fs says the same, but its first use costs more than opening a database.
 */
export async function* entriesAt(root: string, depth: number, list: List): AsyncGenerator<string> {
  for (const entry of await list(root)) {
    const { name } = entry;
    if (name.startsWith(".")) continue;
    if (depth === 1) yield name;
    else if (entry.isDirectory())
      for await (const below of entriesAt(path.join(root, name), depth - 1, list)) yield path.join(name, below);
  }
}
