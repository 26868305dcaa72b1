import { randomBytes } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { makeFolder } from "./make-folder.ts";

/** A name beside `file` for what will be renamed to it. */
export function temporaryName(file: string): string {
  return `${file}.${process.pid}-${randomBytes(4).toString("hex")}.tmp`;
}

/** Replaces the file whole or not at all; makes its folder. `mode`: 0o600 for what is nobody else's business. */
export async function writeFileAtomic(file: string, content: string | Uint8Array, mode = 0o666): Promise<void> {
  const temporary = temporaryName(file);
  makeFolder(path.dirname(file));
  try {
    await writeFile(temporary, content, { mode });
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
