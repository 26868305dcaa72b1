/** The volumes of this machine: `<root>/<app>/<environment>/<name>`. */
import { randomUUID } from "node:crypto";
import { lstat, mkdir, open, readdir, rename } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { type Volume, volumeNameProblem } from "../domain/volume.ts";
import { entriesAt } from "../lib/entries-at.ts";
import { DiskVolumeFiles, removeBelow } from "./disk-volume-files.ts";
import type { VolumeSizes } from "./volume-sizes.ts";
import type { VolumeFiles, VolumeStore, VolumeUse } from "./volume-store.ts";

/** Beside the volumes of an environment: what arrives, and what is being removed. No worker reaches it. */
const UPLOADS = ".uploads";

interface DiskVolumesOptions {
  readonly root: string;
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
    const folder = path.join(this.#options.root, app, environment);
    const found = await readdir(folder, { withFileTypes: true }).catch(() => []);
    const volumes = found.filter((entry) => entry.isDirectory() && volumeNameProblem(entry.name) === undefined);
    return volumes.map(({ name }) => name).sort();
  }

  use(volume: Volume): VolumeUse {
    return this.#options.sizes.use(volume);
  }

  async files(volume: Volume): Promise<VolumeFiles> {
    if (!(await this.#isThere(volume))) throw notThere(volume);
    return new DiskVolumeFiles(volume, this.#folder(volume), this.#uploads(volume), () => this.use(volume));
  }

  async create(volume: Volume): Promise<void> {
    if (await this.#isThere(volume)) {
      throw new SvcError("CONFLICT", `${volume.app}/${volume.environment} has a volume "${volume.name}" already.`);
    }
    await this.#options.make(volume);
  }

  async delete(volume: Volume): Promise<void> {
    if (!(await this.#isThere(volume))) throw notThere(volume);
    const uploads = this.#uploads(volume);
    await mkdir(uploads, { recursive: true, mode: 0o700 });
    const name = randomUUID();
    await rename(this.#folder(volume), path.join(uploads, name));
    await removeFrom(uploads, name);
  }

  /** Removes what broken uploads and removals left, and nothing changed since `before` (milliseconds since the epoch). */
  async sweep(before: number): Promise<void> {
    for await (const environment of entriesAt(this.#options.root, 2)) {
      const uploads = path.join(this.#options.root, environment, UPLOADS);
      for await (const left of entriesAt(uploads, 1)) {
        const { mtimeMs } = await lstat(path.join(uploads, left)).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
        if (mtimeMs < before) await removeFrom(uploads, left);
      }
    }
  }

  async #isThere(volume: Volume): Promise<boolean> {
    const problem = volumeNameProblem(volume.name);
    if (problem !== undefined) throw new SvcError("INVALID_NAME", problem);
    const facts = await lstat(this.#folder(volume)).catch(() => undefined);
    return facts?.isDirectory() === true;
  }

  #folder({ app, environment, name }: Volume): string {
    return path.join(this.#options.root, app, environment, name);
  }

  #uploads({ app, environment }: Volume): string {
    return path.join(this.#options.root, app, environment, UPLOADS);
  }
}

function notThere({ app, environment, name }: Volume): SvcError {
  return new SvcError("NOT_FOUND", `${app}/${environment} has no volume "${name}".`, {
    help: `svc volume list shows all; svc volume create ${name} makes it.`,
  });
}

async function removeFrom(parent: string, name: string): Promise<void> {
  const folder = await open(parent);
  await removeBelow(folder, [`./${name}`]).finally(() => folder.close());
}
