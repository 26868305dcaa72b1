/**
 * Layers on the disk of this machine: `<dir>/<digest>/…`, unpacked once, whole or not at all.
 * They are a cache of the artifacts, which are on the disk: unpacking does not wait for it.
 */
import { access, mkdir, mkdtemp, readdir, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { SvcError } from "../domain/errors.ts";
import { lackOf } from "../domain/storage.ts";
import { BOOT_MARK, emptyAfterOtherBoot } from "./other-boot.ts";
import { unpackBounds, unpackLayer } from "./unpack-layer.ts";
import { FolderUse } from "./unused-folders.ts";
import type { WorkerImage } from "./worker-driver.ts";

export class LayerFolder {
  readonly #dir: string;
  readonly #artifacts: ArtifactStore;
  readonly #bootIdFile: string | undefined;
  readonly #unpacking = new Map<string, Promise<string>>();
  readonly #use: FolderUse;

  constructor(dir: string, artifacts: ArtifactStore, bootIdFile?: string) {
    this.#dir = dir;
    this.#bootIdFile = bootIdFile;
    this.#artifacts = artifacts;
    this.#use = new FolderUse(dir);
  }

  /** Call before all else. */
  async open(): Promise<void> {
    await emptyAfterOtherBoot(this.#dir, this.#bootIdFile);
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
    const packages = path.join(deps, key);
    // It is put before a worker as it is: nothing of it may be elsewhere.
    const real = await realpath(packages);
    if (real !== path.join(await realpath(this.path(digest)), "deps", key)) {
      throw new SvcError("LAYER_CORRUPT", `Layer ${digest} has its packages outside itself.`);
    }
    return packages;
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
    await this.#use.removeUnused(new Set([BOOT_MARK, ...keep]), before);
  }

  async #ensure(digest: string): Promise<string> {
    const target = this.path(digest);
    const there = await access(target).then(
      () => true,
      () => false,
    );
    if (there) return target;
    try {
      await this.#unpack(digest, target);
    } catch (error) {
      const lack = lackOf(error);
      const isDropped = async () => this.#artifacts.dropDamaged(digest).catch(() => false);
      if (lack === "room" || lack === "descriptors" || !(await isDropped())) throw error;
      // It comes again from where it is whole, or is missing and is sent again by a deploy.
      await this.#unpack(digest, target);
    }
    return target;
  }

  async #unpack(digest: string, target: string): Promise<void> {
    await mkdir(this.#dir, { recursive: true });
    const temporary = await mkdtemp(path.join(this.#dir, ".unpack-"));
    try {
      const bounds = unpackBounds((await this.#artifacts.size(digest)) ?? 0);
      await unpackLayer(await this.#artifacts.open(digest), temporary, bounds);
      await rename(temporary, target);
    } catch (error) {
      await rm(temporary, { recursive: true, force: true });
      throw error;
    }
  }
}
