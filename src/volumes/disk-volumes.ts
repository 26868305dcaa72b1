/** The volumes of this machine: `<root>/<app>/<environment>/<name>`. */
import { randomUUID } from "node:crypto";
import { type FileHandle, lstat, mkdir, open, rename } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { type Volume, volumeNameProblem, volumesFailed } from "../domain/volume.ts";
import { ifThere } from "../lib/if-there.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { DiskVolumeFiles, removeBelow } from "./disk-volume-files.ts";
import type { VolumeSizes } from "./volume-sizes.ts";
import type { VolumeFiles, VolumeStore, VolumeUse } from "./volume-store.ts";

/** Beside the volumes of an environment: what arrives, and what is being removed. No worker reaches it. */
const UPLOADS = ".uploads";

interface DiskVolumesOptions {
  readonly disk: NetworkFolder;
  readonly sizes: VolumeSizes;
  /** Makes the folder, and it the workers' own. */
  readonly make: (volume: Volume) => Promise<unknown>;
}

export class DiskVolumes implements VolumeStore {
  readonly #options: DiskVolumesOptions;

  constructor(options: DiskVolumesOptions) {
    this.#options = options;
  }

  async names({ app, environment }: Pick<Volume, "app" | "environment">): Promise<string[]> {
    const { disk } = this.#options;
    const found = await this.#inWords(disk.list(path.join(disk.path, app, environment)));
    const volumes = found.filter((entry) => entry.isDirectory() && volumeNameProblem(entry.name) === undefined);
    return volumes.map(({ name }) => name).sort();
  }

  use(volume: Volume): VolumeUse {
    return this.#options.sizes.use(volume);
  }

  async files(volume: Volume): Promise<VolumeFiles> {
    if (!(await this.#isThere(volume))) throw notThere(volume);
    const use = () => this.use(volume);
    return new DiskVolumeFiles(this.#options.disk, volume, this.#folder(volume), this.#uploads(volume), use);
  }

  async create(volume: Volume): Promise<void> {
    if (await this.#isThere(volume)) {
      throw new SvcError("CONFLICT", `${volume.app}/${volume.environment} has a volume "${volume.name}" already.`);
    }
    await this.#options.make(volume);
  }

  async delete(volume: Volume): Promise<void> {
    if (!(await this.#isThere(volume))) throw notThere(volume);
    const { disk } = this.#options;
    const uploads = this.#uploads(volume);
    const name = randomUUID();
    await this.#inWords(disk.run(() => mkdir(uploads, { recursive: true, mode: 0o700 })));
    const moved = disk.run(() => rename(this.#folder(volume), path.join(uploads, name)).then(() => true));
    // Another may have removed it just now.
    if (!(await this.#inWords(ifThere(moved)))) throw notThere(volume);
    await this.#removeFrom(uploads, name);
  }

  /** Removes what broken uploads and removals left, and nothing changed since `before` (milliseconds since the epoch). */
  async sweep(before: number): Promise<void> {
    const { disk } = this.#options;
    for await (const environment of disk.entries(disk.path, 2)) {
      const uploads = path.join(disk.path, environment, UPLOADS);
      for await (const left of disk.entries(uploads, 1)) {
        const facts = await ifThere(disk.run(() => lstat(path.join(uploads, left))));
        if (facts !== undefined && facts.mtimeMs < before) await this.#removeFrom(uploads, left);
      }
    }
  }

  async #isThere(volume: Volume): Promise<boolean> {
    const problem = volumeNameProblem(volume.name);
    if (problem !== undefined) throw new SvcError("INVALID_NAME", problem);
    const facts = await this.#inWords(ifThere(this.#options.disk.run(() => lstat(this.#folder(volume)))));
    return facts?.isDirectory() === true;
  }

  async #removeFrom(parent: string, name: string): Promise<void> {
    const { disk } = this.#options;
    const close = (folder: FileHandle) => disk.later(() => folder.close());
    const folder = await this.#inWords(disk.run(() => open(parent), { late: close }));
    await removeBelow(folder, name).finally(() => close(folder));
  }

  #inWords<T>(work: Promise<T>): Promise<T> {
    return work.catch((error) => {
      throw volumesFailed(this.#options.disk.path, error);
    });
  }

  #folder({ app, environment, name }: Volume): string {
    return path.join(this.#options.disk.path, app, environment, name);
  }

  #uploads({ app, environment }: Volume): string {
    return path.join(this.#options.disk.path, app, environment, UPLOADS);
  }
}

function notThere({ app, environment, name }: Volume): SvcError {
  return new SvcError("NOT_FOUND", `${app}/${environment} has no volume "${name}".`, {
    help: `svc volume list shows all; svc volume create ${name} makes it.`,
  });
}
