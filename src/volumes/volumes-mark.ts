/**
 * A file in the folder of the volumes says whose they are: one without it is another folder, such as that below a mount whose disk is
 * not there. Volumes made there would hide, and be hidden, when it is back.
 */

import { randomUUID } from "node:crypto";
import { link, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { VOLUMES_MARK, volumesElsewhere, volumesFailed } from "../domain/volume.ts";
import { ifThere } from "../lib/if-there.ts";
import { makeFolderAside } from "../lib/make-folder.ts";
import { oneTime } from "../lib/one-time.ts";
import { temporaryName, writeFileAtomic } from "../lib/write-file-atomic.ts";

const WRITES_NOTHING = new Set(["EACCES", "EPERM", "EROFS"]);

interface Known {
  readonly folder: string;
  readonly id: string;
}

/** Marks the folder, unless it is already, also by another platform just now. Resolves what stands there. */
export async function markVolumes(folder: string): Promise<string> {
  const file = path.join(folder, VOLUMES_MARK);
  const mark = async () => (await ifThere(readFile(file, "utf8")))?.trim();
  const found = await mark();
  if (found !== undefined) return found;
  await makeFolderAside(folder);
  const made = temporaryName(file);
  try {
    await writeFile(made, `${randomUUID()}\n`, { flush: true }); // Agents of other users read it.
    await link(made, file).catch((error: NodeJS.ErrnoException) => {
      // There are file systems without hard links.
      if (error.code === "EPERM" || error.code === "ENOTSUP") return rename(made, file);
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(made, { force: true });
  }
  return (await mark()) ?? "";
}

/**
 * What stands in the folder, as the file `record` remembers it: a folder that is new is marked, and what it is to be known by from then
 * on. Undefined: it takes no file.
 */
export function rememberedMark(folder: string, record: string): () => Promise<string | undefined> {
  return oneTime(async () => {
    const known = recorded((await ifThere(readFile(record, "utf8"))) ?? "");
    if (known?.folder === folder) return known.id;
    try {
      const first = { folder, id: await markVolumes(folder) };
      await writeFileAtomic(record, `${JSON.stringify(first)}\n`);
      return first.id;
    } catch (error) {
      if (WRITES_NOTHING.has((error as NodeJS.ErrnoException).code ?? "")) return undefined;
      throw error;
    }
  });
}

export class VolumesMark {
  readonly #folder: string;
  readonly #known: () => Promise<string | undefined>;
  /** The file that was last found to be right. */
  #seen = "";

  /** `known`: what should stand there; undefined: nobody knows. */
  constructor(folder: string, known: () => Promise<string | undefined>) {
    this.#folder = folder;
    this.#known = known;
  }

  /** Throws VOLUMES_AWAY when the folder is another one than it was. */
  async check(): Promise<void> {
    const file = path.join(this.#folder, VOLUMES_MARK);
    try {
      const id = await this.#known();
      if (id === undefined) return;
      const facts = await ifThere(stat(file));
      const seen = facts === undefined ? "" : `${id} ${facts.dev} ${facts.ino} ${facts.mtimeMs}`;
      if (seen !== "" && seen === this.#seen) return;
      const found = (await ifThere(readFile(file, "utf8")))?.trim();
      if (found !== id) throw volumesElsewhere(this.#folder, file, id, found);
      this.#seen = seen;
    } catch (error) {
      throw volumesFailed(this.#folder, error);
    }
  }
}

/** Undefined: it is damaged, or there is none. */
function recorded(text: string): Known | undefined {
  try {
    return JSON.parse(text) as Known;
  } catch {
    return undefined;
  }
}
