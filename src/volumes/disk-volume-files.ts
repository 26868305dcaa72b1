/**
 * The files of one volume. Workers change it at any time, and may put links there that lead out of it: nothing in it is believed.
 * Every folder of a path is opened from the one before it, as `/proc/self/fd/N/name` with O_NOFOLLOW, and what is done is done in
 * an open folder: a link is refused wherever it stands and whenever it is put there.
 *
 *   upload ──parts──▶ .uploads/<id>, beside the volume, where no worker reaches ──complete──▶ renamed into its folder
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, rename, rm, rmdir, unlink } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { lackOf } from "../domain/storage.ts";
import { type Volume, volumeFull } from "../domain/volume.ts";
import type { UploadPart, VolumeEntry, VolumeFile, VolumeFiles, VolumePath, VolumeUse } from "./volume-store.ts";

const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
const FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
/** Every endpoint of the volume changes what is uploaded: their group owns the folder. */
const FILE_MODE = 0o664;
const FOLDER_MODE = 0o2775;

export class DiskVolumeFiles implements VolumeFiles {
  readonly #volume: Volume;
  readonly #root: string;
  readonly #uploads: string;
  readonly #use: () => VolumeUse;

  constructor(volume: Volume, root: string, uploads: string, use: () => VolumeUse) {
    this.#volume = volume;
    this.#root = root;
    this.#uploads = uploads;
    this.#use = use;
  }

  async *entries(where: VolumePath): AsyncGenerator<VolumeEntry> {
    const own = where.length === 0 ? await this.#entryOfRoot() : await this.#entry(where);
    if (own.kind !== "folder") return void (yield own);
    const folder = await this.#folder(where);
    try {
      yield own;
      for await (const { name } of await opendir(inside(folder))) {
        const entry = await entryAt(folder, name).catch(() => undefined); // It went away.
        if (entry !== undefined) yield entry;
      }
    } finally {
      await folder.close();
    }
  }

  async read(where: VolumePath): Promise<VolumeFile> {
    return this.#inParent(where, false, async (folder, name) => {
      const seen = await entryAt(folder, name);
      if (seen.kind !== "file") throw this.#isOther(where, seen.kind);
      const file = await open(inside(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      const facts = await file.stat();
      if (!facts.isFile()) {
        await file.close();
        throw this.#isOther(where, "other");
      }
      const end = Math.max(0, facts.size - 1);
      const bytes = file.createReadStream({ start: 0, end, highWaterMark: 1 << 18 });
      return { name, kind: "file", sizeBytes: facts.size, modifiedAt: facts.mtimeMs, bytes };
    });
  }

  async write(where: VolumePath, { id, offset, complete, bytes }: UploadPart): Promise<number> {
    if (where.length === 0) throw new SvcError("BAD_INPUT", "A file has a name.");
    const { sizeBytes = 0, limitBytes = Number.POSITIVE_INFINITY } = this.#use();
    const maxBytes = limitBytes - sizeBytes;
    if (maxBytes <= offset) throw volumeFull(this.#volume.name);
    await mkdir(this.#uploads, { recursive: true, mode: 0o700 });
    const temporary = path.join(this.#uploads, id);
    const file = await open(temporary, O_WRONLY | (offset === 0 ? O_CREAT | O_TRUNC : 0), 0o600).catch(unknownUpload);
    try {
      if ((await file.stat()).size < offset) unknownUpload();
      await file.truncate(offset);
      let arrived = offset;
      for await (const chunk of bytes) {
        if (arrived + chunk.length > maxBytes) throw volumeFull(this.#volume.name);
        for (let done = 0; done < chunk.length; ) {
          done += (await file.write(chunk, done, chunk.length - done, arrived + done)).bytesWritten;
        }
        arrived += chunk.length;
      }
      if (complete) await this.#place(file, temporary, where);
      return arrived;
    } catch (error) {
      throw this.#inWords(error, where);
    } finally {
      await file.close();
    }
  }

  abandon(uploadId: string): Promise<void> {
    return rm(path.join(this.#uploads, uploadId), { force: true });
  }

  async remove(where: VolumePath, recursive: boolean): Promise<void> {
    if (where.length === 0) {
      if (!recursive) throw new SvcError("BAD_INPUT", "This would remove all of the volume's files.");
      const root = await this.#folder([]);
      return removeBelow(root, [".", "-mindepth", "1"]).finally(() => root.close());
    }
    await this.#inParent(where, false, async (folder, name) => {
      const { kind } = await entryAt(folder, name);
      if (kind !== "folder") await unlink(inside(folder, name));
      else if (recursive) await removeBelow(folder, [`./${name}`]);
      else await rmdir(inside(folder, name));
    });
  }

  async #place(file: FileHandle, temporary: string, where: VolumePath): Promise<void> {
    await this.#inParent(where, true, async (folder, name) => {
      await this.#give(file, FILE_MODE);
      await file.sync();
      await rename(temporary, inside(folder, name));
    });
  }

  /** Whose the volume is, of that is what is made in it, too. */
  async #give(made: FileHandle, mode: number): Promise<void> {
    if (process.getuid?.() === 0) {
      const { uid, gid } = await lstat(this.#root);
      await made.chown(uid, gid);
    }
    await made.chmod(mode);
  }

  async #inParent<T>(
    where: VolumePath,
    make: boolean,
    work: (folder: FileHandle, name: string) => Promise<T>,
  ): Promise<T> {
    const name = where.at(-1);
    if (name === undefined) throw new SvcError("BAD_INPUT", "That is the volume itself, and no file.");
    const folder = await this.#folder(where.slice(0, -1), make);
    try {
      return await work(folder, name);
    } catch (error) {
      throw this.#inWords(error, where);
    } finally {
      await folder.close();
    }
  }

  async #folder(where: VolumePath, make = false): Promise<FileHandle> {
    let folder = await open(this.#root, FOLDER);
    for (const part of where) {
      try {
        const next = await this.#step(folder, part, make);
        await folder.close();
        folder = next;
      } catch (error) {
        await folder.close();
        throw this.#inWords(error, where);
      }
    }
    return folder;
  }

  async #step(folder: FileHandle, name: string, make: boolean): Promise<FileHandle> {
    const place = inside(folder, name);
    const there = await open(place, FOLDER).catch(unless("ENOENT", make));
    if (there !== undefined) return there;
    const isNew = await mkdir(place).then(() => true, unless("EEXIST", true));
    const made = await open(place, FOLDER);
    if (isNew) await this.#give(made, FOLDER_MODE).catch((error) => made.close().then(() => Promise.reject(error)));
    return made;
  }

  #entry(where: VolumePath): Promise<VolumeEntry> {
    return this.#inParent(where, false, entryAt);
  }

  async #entryOfRoot(): Promise<VolumeEntry> {
    const { mtimeMs } = await lstat(this.#root);
    return { name: this.#volume.name, kind: "folder", sizeBytes: 0, modifiedAt: mtimeMs };
  }

  #isOther(where: VolumePath, kind: VolumeEntry["kind"]): SvcError {
    const what = { folder: "a folder", link: "a link, and links are not followed", other: "no plain file", file: "" };
    return new SvcError("BAD_INPUT", `${this.#shown(where)} is ${what[kind]}.`);
  }

  #shown(where: VolumePath): string {
    return JSON.stringify([this.#volume.name, ...where].join("/"));
  }

  #inWords(error: unknown, where: VolumePath): unknown {
    const shown = this.#shown(where);
    if (lackOf(error) === "room") {
      return new SvcError(
        "STORAGE_FULL",
        `The disk of the volume "${this.#volume.name}" is full: nothing was stored.`,
        {
          help: "Make room on it (svc volume rm), and try again.",
          cause: error,
        },
      );
    }
    const code = (error as NodeJS.ErrnoException).code ?? "";
    const words: Readonly<Record<string, SvcError>> = {
      ENOENT: new SvcError("NOT_FOUND", `There is no ${shown}.`),
      ELOOP: new SvcError("BAD_INPUT", `The way to ${shown} leads over a link: links are not followed.`),
      ENOTDIR: new SvcError("BAD_INPUT", `The way to ${shown} leads over a file or a link, which is no folder.`),
      EISDIR: new SvcError("CONFLICT", `${shown} is a folder.`),
      ENOTEMPTY: new SvcError("CONFLICT", `The folder ${shown} is not empty.`),
      EACCES: new SvcError("FORBIDDEN", `The platform's user may not reach ${shown}.`),
      EPERM: new SvcError("FORBIDDEN", `The platform's user may not change ${shown}.`),
      EXDEV: new SvcError(
        "CONFLICT",
        `${shown} lies on another file system than the volumes around it: it takes no uploads.`,
      ),
    };
    return words[code] ?? error;
  }
}

/** A name in an open folder; the folder itself without one. */
function inside({ fd }: FileHandle, name = ""): string {
  return `/proc/self/fd/${fd}/${name}`;
}

async function entryAt(folder: FileHandle, name: string): Promise<VolumeEntry> {
  const facts = await lstat(inside(folder, name));
  const kind = facts.isFile() ? "file" : facts.isDirectory() ? "folder" : facts.isSymbolicLink() ? "link" : "other";
  return { name, kind, sizeBytes: kind === "file" ? facts.size : 0, modifiedAt: facts.mtimeMs };
}

function unless(code: string, accepted: boolean) {
  return (error: NodeJS.ErrnoException): undefined => {
    if (!accepted || error.code !== code) throw error;
  };
}

function unknownUpload(): never {
  throw new SvcError("CONFLICT", "This upload is not known any more.", { help: "Send the file from its first byte." });
}

/** By `find`, which holds on to the folders that it goes through: a link put in its way is removed, not followed. */
export async function removeBelow(folder: FileHandle, what: readonly string[]): Promise<void> {
  const cwd = `/proc/${process.pid}/fd/${folder.fd}`;
  const child = spawn("find", ["-P", ...what, "-xdev", "-delete"], { cwd, stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code === 0) return;
  throw new SvcError("CONFLICT", "Not all of it could be removed: a worker may be writing there. Try again.");
}
