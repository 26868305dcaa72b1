/**
 * Layers on the disk of this machine: `<dir>/<digest>/…`, unpacked once, whole or not at all. What a layer may hold is
 * checked here, whoever made it: plain files, folders, and links that stay inside.
 */
import { createWriteStream } from "node:fs";
import { access, mkdir, mkdtemp, readdir, rename, rm, symlink } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import tar from "tar-stream";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { SvcError } from "../domain/errors.ts";
import { FolderUse } from "./unused-folders.ts";
import type { WorkerImage } from "./worker-driver.ts";

export class LayerFolder {
  readonly #dir: string;
  readonly #artifacts: ArtifactStore;
  readonly #unpacking = new Map<string, Promise<string>>();
  readonly #use: FolderUse;

  constructor(dir: string, artifacts: ArtifactStore) {
    this.#dir = dir;
    this.#artifacts = artifacts;
    this.#use = new FolderUse(dir);
  }

  /** The folder of an unpacked layer. */
  path(digest: string): string {
    return path.join(this.#dir, digest);
  }

  /** Folder of the installed packages inside a dependency layer: `deps/<key>`. */
  async packages(digest: string): Promise<string> {
    const deps = path.join(this.path(digest), "deps");
    const [key] = await readdir(deps);
    if (key === undefined) throw new SvcError("LAYER_CORRUPT", `Layer ${digest} has no folder below deps/.`);
    return path.join(deps, key);
  }

  /** Unpacks the layer unless it is there; two callers share one unpacking. */
  ensure(digest: string): Promise<string> {
    this.#use.note(digest);
    let work = this.#unpacking.get(digest);
    if (work === undefined) {
      work = this.#ensure(digest).finally(() => this.#unpacking.delete(digest));
      this.#unpacking.set(digest, work);
    }
    return work;
  }

  /** Removes the layers that none of the images needs and nobody asked for since `before`. */
  async removeUnused(images: readonly WorkerImage[], before: number): Promise<void> {
    const keep = images.flatMap(({ sourceLayer, dependencyLayer }) => [sourceLayer, dependencyLayer ?? sourceLayer]);
    await this.#use.removeUnused(new Set(keep), before);
  }

  async #ensure(digest: string): Promise<string> {
    const target = this.path(digest);
    const there = await access(target).then(
      () => true,
      () => false,
    );
    if (there) return target;
    await mkdir(this.#dir, { recursive: true });
    const temporary = await mkdtemp(path.join(this.#dir, ".unpack-"));
    try {
      await unpack(await this.#artifacts.open(digest), temporary);
      await rename(temporary, target);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      throw error;
    }
    return target;
  }
}

async function unpack(compressed: NodeJS.ReadableStream, dir: string): Promise<void> {
  const extract = tar.extract();
  const fed = pipeline(compressed, createGunzip(), extract);
  const written = (async () => {
    for await (const entry of extract) {
      const { name, type, mode, linkname } = entry.header;
      const file = inside(dir, name);
      if (type === "directory") await mkdir(file, { recursive: true });
      else if (type === "file") {
        await mkdir(path.dirname(file), { recursive: true });
        // "wx": an entry never follows a link or replaces what an earlier entry made.
        const fileMode = (mode ?? 0) & 0o111 ? 0o755 : 0o644;
        await pipeline(entry, createWriteStream(file, { flags: "wx", mode: fileMode }));
        continue;
      } else if (type === "symlink") {
        inside(dir, path.join(path.dirname(name), linkname ?? ""));
        if (path.isAbsolute(linkname ?? "/")) throw unsafe(name);
        await mkdir(path.dirname(file), { recursive: true });
        await symlink(linkname!, file);
      } else throw unsafe(name);
      entry.resume();
    }
  })();
  await Promise.all([fed, written]);
}

function inside(dir: string, name: string): string {
  const file = path.resolve(dir, name);
  if (path.isAbsolute(name) || (file !== dir && !file.startsWith(dir + path.sep))) throw unsafe(name);
  return file;
}

function unsafe(name: string): SvcError {
  return new SvcError("LAYER_CORRUPT", `The layer has an entry that may not be unpacked: ${JSON.stringify(name)}.`);
}
