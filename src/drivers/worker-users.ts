/**
 * As root the platform runs the processes of each endpoint as a user of their own, out of a range of numbers that nobody else on
 * the machine should have. The first number is the group that may use the platform's socket, the last one the installer. Which number an endpoint has
 * is the owner of its folder of temporary files: so it stays the same while that folder is there. A volume has a number, too: that of
 * the group of those who use it.
 */
import { chmodSync, chownSync } from "node:fs";
import { chmod, chown, mkdir, readdir, stat } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { ifThere } from "../lib/if-there.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { oneTime } from "../lib/one-time.ts";
import { checkUsersAreThere } from "./user-map.ts";

export interface WorkerUser {
  readonly uid: number;
  readonly gid: number;
}

export class WorkerUsers {
  readonly #dir: string;
  readonly #volumes: NetworkFolder;
  readonly #first: number;
  readonly #last: number;
  readonly #taken = new Map<string, number>();
  readonly #ofEndpoints = oneTime(() => this.#readEndpoints());
  readonly #ofVolumes = oneTime(() => this.#readVolumes());

  /** `dir` has a folder for each endpoint, `volumes` one for each volume, three levels down. Throws CONFIG_INVALID. */
  constructor(dir: string, volumes: NetworkFolder, [first, last]: readonly [number, number]) {
    checkUsersAreThere([first, last]);
    this.#dir = dir;
    this.#volumes = volumes;
    this.#first = first;
    this.#last = last;
  }

  /** Who installs packages for the platform. */
  get installer(): number {
    return this.#last;
  }

  /** Makes the endpoint's folder, its user's own. */
  async userOf(endpointId: string): Promise<WorkerUser> {
    const uid = await this.#numberOf(endpointId);
    const folder = path.join(this.#dir, endpointId);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chown(folder, uid, uid);
    return { uid, gid: this.#first };
  }

  /** Makes the folder of a volume its group's, whose members write what others of them made. Resolves the group. */
  async shareVolume(folder: string): Promise<number> {
    const gid = await this.#numberOf(folder);
    await this.#volumes.run(() => chown(folder, process.getuid!(), gid));
    await this.#volumes.run(() => chmod(folder, 0o2770));
    return gid;
  }

  async #numberOf(owner: string): Promise<number> {
    const taken = this.#taken;
    await this.#ofEndpoints();
    if (!taken.has(owner)) await this.#ofVolumes();
    const number = taken.get(owner) ?? this.#free(taken);
    taken.set(owner, number);
    return number;
  }

  /** Lets the workers' group through to the socket: the folder may be passed and not listed. */
  lendSocket(socketPath: string): void {
    const folder = path.dirname(socketPath);
    for (const [file, mode] of [
      [folder, 0o710],
      [socketPath, 0o660],
    ] as const) {
      chownSync(file, process.getuid!(), this.#first);
      chmodSync(file, mode);
    }
  }

  async #readEndpoints(): Promise<void> {
    for (const name of await readdir(this.#dir).catch(() => [])) {
      const uid = (await ifThere(stat(path.join(this.#dir, name))))?.uid ?? 0;
      if (uid > this.#first && uid < this.#last) this.#taken.set(name, uid);
    }
  }

  /** Endpoints that have a number go on with it while the volumes' disk is away. */
  async #readVolumes(): Promise<void> {
    const used = new Set(this.#taken.values());
    const disk = this.#volumes;
    for await (const volume of disk.entries(disk.path, 3)) {
      const folder = path.join(disk.path, volume);
      const gid = (await ifThere(disk.run(() => stat(folder))))?.gid ?? 0;
      if (gid > this.#first && gid < this.#last && !used.has(gid)) this.#taken.set(folder, gid);
    }
  }

  #free(taken: ReadonlyMap<string, number>): number {
    const used = new Set(taken.values());
    for (let uid = this.#first + 1; uid < this.#last; uid += 1) if (!used.has(uid)) return uid;
    throw new SvcError("NO_CAPACITY", `All ${this.#last - this.#first - 1} users for workers are taken.`, {
      help: "Widen SVC_WORKER_UIDS and start the platform again.",
    });
  }
}
