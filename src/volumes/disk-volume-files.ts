/**
 * The files of one volume. Workers change it at any time, and may put links there that lead out of it: nothing in it is believed.
 * Every folder of a path is opened from the one before it, as `/proc/self/fd/N/name` with O_NOFOLLOW, and what is done is done in
 * an open folder: a link is refused wherever it stands and whenever it is put there.
 *
 * All of it by the NetworkFolder around it, one step at a time: the disk may stop answering.
 *
 *   upload ──parts──▶ .uploads/<id>, beside the volume, where no worker reaches ──complete──▶ renamed into its folder
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, rename, rm, rmdir, unlink } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import { VOLUME_PART_BYTES, VOLUME_SYNC_PATIENCE_MS } from "../domain/limits.ts";
import { lackOf } from "../domain/storage.ts";
import { type Volume, volumeFull, volumesAway } from "../domain/volume.ts";
import { ifThere } from "../lib/if-there.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import type { UploadPart, VolumeEntry, VolumeFile, VolumeFiles, VolumePath, VolumeUse } from "./volume-store.ts";

const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
const FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
/** Every endpoint of the volume changes what is uploaded: their group owns the folder. */
const FILE_MODE = 0o664;
const FOLDER_MODE = 0o2775;
const READ_BYTES = 256 * 1024;
const OPEN = { isOpen: true };

export class DiskVolumeFiles implements VolumeFiles {
  readonly #disk: NetworkFolder;
  readonly #volume: Volume;
  readonly #root: string;
  readonly #uploads: string;
  readonly #use: () => VolumeUse;

  constructor(disk: NetworkFolder, volume: Volume, root: string, uploads: string, use: () => VolumeUse) {
    this.#disk = disk;
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
      const names = await this.#disk.run(() => opendir(inside(folder)), { late: (late) => this.#close(late) });
      try {
        for (;;) {
          const one = await this.#disk.run(() => names.read(), OPEN);
          if (one === null) return;
          const entry = await ifThere(this.#entryAt(folder, one.name));
          if (entry !== undefined) yield entry;
        }
      } finally {
        this.#close(names);
      }
    } catch (error) {
      throw this.#inWords(error, where);
    } finally {
      this.#close(folder);
    }
  }

  async read(where: VolumePath): Promise<VolumeFile> {
    return this.#inParent(where, false, async (folder, name) => {
      const seen = await this.#entryAt(folder, name);
      if (seen.kind !== "file") throw this.#isOther(where, seen.kind);
      const file = await this.#open(inside(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      try {
        const facts = await this.#disk.run(() => file.stat(), OPEN);
        if (!facts.isFile()) throw this.#isOther(where, "other");
        const { size: sizeBytes, mtimeMs: modifiedAt } = facts;
        return { name, kind: "file", sizeBytes, modifiedAt, bytes: this.#bytesOf(file, sizeBytes) };
      } catch (error) {
        this.#close(file);
        throw error;
      }
    });
  }

  async write(where: VolumePath, { id, offset, complete, bytes }: UploadPart): Promise<number> {
    if (where.length === 0) throw new SvcError("BAD_INPUT", "A file has a name.");
    const { sizeBytes = 0, limitBytes = Number.POSITIVE_INFINITY } = this.#use();
    const maxBytes = limitBytes - sizeBytes;
    if (maxBytes <= offset) throw volumeFull(this.#volume.name);
    const temporary = path.join(this.#uploads, id);
    const file = await this.#incoming(temporary, offset === 0).catch((error) =>
      Promise.reject(this.#inWords(error, where)),
    );
    try {
      if ((await this.#disk.run(() => file.stat(), OPEN)).size < offset) throw unknownUpload();
      await this.#disk.run(() => file.truncate(offset), OPEN);
      let arrived = offset;
      let unsynced = 0;
      for await (const chunk of bytes) {
        if (arrived + chunk.length > maxBytes) throw volumeFull(this.#volume.name);
        for (let done = 0; done < chunk.length; ) {
          const [from, rest, to] = [done, chunk.length - done, arrived + done];
          done += (await this.#disk.run(() => file.write(chunk, from, rest, to), OPEN)).bytesWritten;
        }
        arrived += chunk.length;
        unsynced += chunk.length;
        if (unsynced >= VOLUME_PART_BYTES) {
          await this.#sync(file);
          unsynced = 0;
        }
      }
      if (complete) await this.#place(file, temporary, where);
      return arrived;
    } catch (error) {
      throw this.#inWords(error, where);
    } finally {
      this.#close(file);
    }
  }

  abandon(uploadId: string): Promise<void> {
    return this.#disk.run(() => rm(path.join(this.#uploads, uploadId), { force: true }));
  }

  async remove(where: VolumePath, recursive: boolean): Promise<void> {
    if (where.length === 0) {
      if (!recursive) throw new SvcError("BAD_INPUT", "This would remove all of the volume's files.");
      const root = await this.#folder([]);
      return removeBelow(root, ".", "-mindepth", "1").finally(() => this.#close(root));
    }
    await this.#inParent(where, false, async (folder, name) => {
      const { kind } = await this.#entryAt(folder, name);
      if (kind !== "folder") await this.#disk.run(() => unlink(inside(folder, name)));
      else if (recursive) await removeBelow(folder, name);
      else await this.#disk.run(() => rmdir(inside(folder, name)));
    });
  }

  async #incoming(file: string, isNew: boolean): Promise<FileHandle> {
    await this.#disk.run(() => mkdir(this.#uploads, { recursive: true, mode: 0o700 }));
    const flags = O_WRONLY | (isNew ? O_CREAT | O_TRUNC : 0);
    const opened = await (isNew ? this.#open(file, flags) : ifThere(this.#open(file, flags)));
    if (opened === undefined) throw unknownUpload();
    return opened;
  }

  /** A part at a time: no step takes long. */
  #sync(file: FileHandle): Promise<void> {
    return this.#disk.run(() => file.sync(), { ...OPEN, patienceMs: VOLUME_SYNC_PATIENCE_MS });
  }

  async #place(file: FileHandle, temporary: string, where: VolumePath): Promise<void> {
    await this.#inParent(where, true, async (folder, name) => {
      await this.#give(file, FILE_MODE);
      await this.#sync(file);
      await this.#disk.run(() => rename(temporary, inside(folder, name)));
    });
  }

  /** Whose the volume is, of that is what is made in it, too. */
  async #give(made: FileHandle, mode: number): Promise<void> {
    if (process.getuid?.() === 0) {
      const { uid, gid } = await this.#disk.run(() => lstat(this.#root));
      await this.#disk.run(() => made.chown(uid, gid), OPEN);
    }
    await this.#disk.run(() => made.chmod(mode), OPEN);
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
      this.#close(folder);
    }
  }

  async #folder(where: VolumePath, make = false): Promise<FileHandle> {
    try {
      let folder = await this.#open(this.#root, FOLDER);
      for (const part of where) {
        const around = folder;
        folder = await this.#step(around, part, make).finally(() => this.#close(around));
      }
      return folder;
    } catch (error) {
      throw this.#inWords(error, where);
    }
  }

  async #step(folder: FileHandle, name: string, make: boolean): Promise<FileHandle> {
    const place = inside(folder, name);
    const there = await this.#open(place, FOLDER).catch(unless("ENOENT", make));
    if (there !== undefined) return there;
    const isNew = await this.#disk.run(() => mkdir(place)).then(() => true, unless("EEXIST", true));
    const made = await this.#open(place, FOLDER);
    try {
      if (isNew) await this.#give(made, FOLDER_MODE);
      return made;
    } catch (error) {
      this.#close(made);
      throw error;
    }
  }

  #entry(where: VolumePath): Promise<VolumeEntry> {
    return this.#inParent(where, false, (folder, name) => this.#entryAt(folder, name));
  }

  async #entryOfRoot(): Promise<VolumeEntry> {
    const { mtimeMs } = await this.#disk
      .run(() => lstat(this.#root))
      .catch((error) => Promise.reject(this.#inWords(error, [])));
    return { name: this.#volume.name, kind: "folder", sizeBytes: 0, modifiedAt: mtimeMs };
  }

  async #entryAt(folder: FileHandle, name: string): Promise<VolumeEntry> {
    const facts = await this.#disk.run(() => lstat(inside(folder, name)));
    const kind = facts.isFile() ? "file" : facts.isDirectory() ? "folder" : facts.isSymbolicLink() ? "link" : "other";
    return { name, kind, sizeBytes: kind === "file" ? facts.size : 0, modifiedAt: facts.mtimeMs };
  }

  #open(file: string, flags: number): Promise<FileHandle> {
    return this.#disk.run(() => open(file, flags, 0o600), { late: (late) => this.#close(late) });
  }

  #close(opened: { close(): Promise<void> }): void {
    this.#disk.later(() => opened.close());
  }

  /** It closes the file. */
  #bytesOf(file: FileHandle, sizeBytes: number): Readable {
    const disk = this.#disk;
    let at = 0;
    const next = async () => {
      const length = Math.min(READ_BYTES, sizeBytes - at);
      if (length === 0) return null;
      const { buffer, bytesRead } = await disk.run(() => file.read(Buffer.allocUnsafe(length), 0, length, at), OPEN);
      at += bytesRead;
      return bytesRead === 0 ? null : buffer.subarray(0, bytesRead);
    };
    return new Readable({
      highWaterMark: READ_BYTES,
      read() {
        next().then(
          (bytes) => this.push(bytes),
          (error) => this.destroy(error),
        );
      },
      destroy: (error, done) => {
        this.#close(file);
        done(error);
      },
    });
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
    const { code = "", message } = error as NodeJS.ErrnoException;
    const words: Readonly<Record<string, SvcError>> = {
      ENOENT: new SvcError("NOT_FOUND", `There is no ${shown}.`),
      ELOOP: new SvcError("BAD_INPUT", `The way to ${shown} leads over a link: links are not followed.`),
      ENOTDIR: new SvcError("BAD_INPUT", `The way to ${shown} leads over a file or a link, which is no folder.`),
      EISDIR: new SvcError("CONFLICT", `${shown} is a folder.`),
      ENOTEMPTY: new SvcError("CONFLICT", `The folder ${shown} is not empty.`),
      EACCES: new SvcError("FORBIDDEN", `The platform's user may not reach ${shown}.`),
      EPERM: new SvcError("FORBIDDEN", `The platform's user may not change ${shown}.`),
      EIO: volumesAway(this.#disk.path, message),
      ESTALE: volumesAway(this.#disk.path, message),
      EROFS: volumesAway(this.#disk.path, message),
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

function unless(code: string, accepted: boolean) {
  return (error: NodeJS.ErrnoException): undefined => {
    if (!accepted || error.code !== code) throw error;
  };
}

function unknownUpload(): SvcError {
  return new SvcError("CONFLICT", "This upload is not known any more.", { help: "Send the file from its first byte." });
}

/**
 * By `find`, which holds on to the folders that it goes through: a link put in its way is removed, not followed. It gets the folder
 * open: who starts a program in a folder waits until it is there, with all else that it does.
 */
export async function removeBelow(folder: FileHandle, name: string, ...which: readonly string[]): Promise<void> {
  const what = ["-P", `/proc/self/fd/3/${name}`, ...which, "-xdev", "-delete"];
  const child = spawn("find", what, { stdio: ["ignore", "ignore", "ignore", folder.fd] });
  const [code] = await once(child, "exit");
  if (code === 0) return;
  throw new SvcError("CONFLICT", "Not all of it could be removed: a worker may be writing there. Try again.");
}
