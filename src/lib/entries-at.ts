import { readdir } from "node:fs/promises";
import path from "node:path";

/**
 * Names below `root` that are `depth` folders deep, relative to it: 1 is what lies in it itself. Hidden ones are left out, links are
 * not entered, and what cannot be read has none. A pattern for node:fs says the same, but its first use costs more than opening a database.
 */
export async function* entriesAt(root: string, depth: number): AsyncGenerator<string> {
  for (const entry of await readdir(root, { withFileTypes: true }).catch(() => [])) {
    const { name } = entry;
    if (name.startsWith(".")) continue;
    if (depth === 1) yield name;
    else if (entry.isDirectory())
      for await (const below of entriesAt(path.join(root, name), depth - 1)) yield path.join(name, below);
  }
}
