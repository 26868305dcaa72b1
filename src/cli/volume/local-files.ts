/** Files of this machine that go to a volume, and places for those that come from one. */
import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { lstat, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../../domain/errors.ts";
import { makeFolder } from "../../lib/make-folder.ts";

export interface LocalFile {
  readonly file: string;
  /** Names below the folder that was named; [] when it is the file itself. */
  readonly below: readonly string[];
  readonly sizeBytes: number;
}

export interface LocalFiles {
  readonly isFolder: boolean;
  readonly files: readonly LocalFile[];
  /** Links out of the folder, and what is neither file nor folder. */
  readonly skipped: readonly string[];
}

/** A link counts as the file that it leads to when that lies in the same folder. Throws FILE_NOT_FOUND. */
export async function localFiles(named: string): Promise<LocalFiles> {
  const facts = await stat(named).catch(() => {
    throw new SvcError("NOT_FOUND", `There is no file or folder ${JSON.stringify(named)} here.`);
  });
  if (facts.isFile())
    return { isFolder: false, files: [{ file: named, below: [], sizeBytes: facts.size }], skipped: [] };
  if (!facts.isDirectory()) throw new SvcError("USAGE", `${JSON.stringify(named)} is neither a file nor a folder.`);
  const root = await realpath(named);
  const files: LocalFile[] = [];
  const skipped: string[] = [];
  const walk = async (folder: string, below: readonly string[]): Promise<void> => {
    for (const entry of (await readdir(folder, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const file = path.join(folder, entry.name);
      const names = [...below, entry.name];
      if (entry.isDirectory()) await walk(file, names);
      else {
        const real = entry.isSymbolicLink() ? await realpath(file).catch(() => "") : file;
        const found = real.startsWith(root + path.sep) ? await stat(real) : undefined;
        if (found?.isFile()) files.push({ file: real, below: names, sizeBytes: found.size });
        else skipped.push(names.join("/"));
      }
    }
  };
  await walk(root, []);
  return { isFolder: true, files, skipped };
}

/** Where what is called `name` goes: into `local` when that is a folder. Throws CONFLICT for a file that is there already. */
export async function localTarget(local: string, name: string, isFolder: boolean, force: boolean): Promise<string> {
  const facts = await stat(local).catch(() => undefined);
  const target = facts?.isDirectory() ? path.join(local, name) : local;
  const there = await lstat(target).catch(() => undefined);
  if (there !== undefined && there.isDirectory() !== isFolder) {
    throw new SvcError("CONFLICT", `${target} is ${isFolder ? "no folder" : "a folder"}.`);
  }
  if (there !== undefined && !force && !isFolder) {
    throw new SvcError("CONFLICT", `${target} is there already.`, { help: "Add --force to replace it." });
  }
  return target;
}

/** In one step: under another name until it is whole. */
export async function writeLocal(
  target: string,
  bytes: AsyncIterable<Buffer>,
  signal: AbortSignal,
  onChunk: (bytes: number) => void,
): Promise<void> {
  makeFolder(path.dirname(target));
  const temporary = path.join(path.dirname(target), `.svc-${randomUUID()}`);
  const counted = async function* (source: AsyncIterable<Buffer>) {
    for await (const chunk of source) {
      onChunk(chunk.length);
      yield chunk;
    }
  };
  try {
    await pipeline(bytes, counted, createWriteStream(temporary, { flags: "wx" }), { signal });
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
