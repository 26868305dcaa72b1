/** The folders of volumes on this machine: `<root>/<app>/<environment>/<name>`, made when a worker first needs one. */
import { mkdir, stat } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { type MountedVolume, type Volume, volumeNameProblem, volumesFailed } from "../domain/volume.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { ifThere } from "../lib/if-there.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";

export class VolumeFolders {
  readonly #disk: NetworkFolder;
  readonly #give: (folder: string) => Promise<void>;
  readonly #made = new Map<string, Promise<string>>();

  /** `give` lets workers into a folder: they are other users than the platform where that is root. */
  constructor(disk: NetworkFolder, give: (folder: string) => Promise<void>) {
    this.#disk = disk;
    this.#give = give;
  }

  /** Resolves the folder. Throws SvcError. */
  async ensure(volume: Volume): Promise<string> {
    const folder = path.join(this.#disk.path, volume.app, volume.environment, volume.name);
    if (!(await this.isThere(folder))) this.#made.delete(folder); // It was removed meanwhile.
    const made = getOrInsert(this.#made, folder, () => this.#make(volume, folder));
    made.catch(() => this.#made.delete(folder)); // The next one tries again.
    return made;
  }

  /** Before a container that has them is made: the engine would wait for their disk, with all else that it does. */
  async ensureAll({ volumes, cache }: { readonly volumes: readonly Volume[]; readonly cache?: Volume }): Promise<void> {
    for (const volume of cache === undefined ? volumes : [...volumes, cache]) await this.ensure(volume);
  }

  /** Throws VOLUMES_AWAY. */
  async isThere(folder: string): Promise<boolean> {
    try {
      return (await ifThere(this.#disk.run(() => stat(folder)))) !== undefined;
    } catch (error) {
      throw volumesFailed(this.#disk.path, error);
    }
  }

  /** Where containers have them. */
  async mounts(volumes: readonly MountedVolume[]): Promise<{ from: string; to: string; writable: boolean }[]> {
    const mounts: { from: string; to: string; writable: boolean }[] = [];
    for (const volume of volumes) {
      const from = await this.ensure(volume);
      for (const to of volume.paths) mounts.push({ from, to, writable: !volume.readOnly });
    }
    return mounts;
  }

  async #make({ name }: Volume, folder: string): Promise<string> {
    const problem = volumeNameProblem(name);
    if (problem !== undefined) throw new SvcError("INVALID_SETTING", problem);
    try {
      // Nobody but the platform passes the folders above: workers get theirs by a mount.
      await this.#disk.run(() => mkdir(folder, { recursive: true, mode: 0o700 }));
      await this.#give(folder);
    } catch (error) {
      if (error instanceof SvcError) throw error;
      throw new SvcError("INVALID_SETTING", `The volume "${name}" cannot be made: ${(error as Error).message}.`, {
        help: "Let the platform's user write to that folder, or name another one by SVC_VOLUMES_DIR.",
        cause: error,
      });
    }
    return folder;
  }
}
