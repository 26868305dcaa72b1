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
import { entriesAt } from "../lib/entries-at.ts";

export interface WorkerUser {
  readonly uid: number;
  readonly gid: number;
}

export class WorkerUsers {
  readonly #dir: string;
  readonly #volumes: string;
  readonly #first: number;
  readonly #last: number;
  #taken: Promise<Map<string, number>> | undefined;

  /** `dir` has a folder for each endpoint, `volumes` one for each volume, three levels down. */
  constructor(dir: string, volumes: string, [first, last]: readonly [number, number]) {
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
    await chown(folder, process.getuid!(), gid);
    await chmod(folder, 0o2770);
    return gid;
  }

  async #numberOf(owner: string): Promise<number> {
    this.#taken ??= this.#look();
    const taken = await this.#taken;
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

  async #look(): Promise<Map<string, number>> {
    const taken = new Map<string, number>();
    for (const name of await readdir(this.#dir).catch(() => [])) {
      const { uid } = await stat(path.join(this.#dir, name));
      if (uid > this.#first && uid < this.#last) taken.set(name, uid);
    }
    const used = new Set(taken.values());
    for await (const volume of entriesAt(this.#volumes, 3)) {
      const folder = path.join(this.#volumes, volume);
      const { gid } = await stat(folder);
      if (gid > this.#first && gid < this.#last && !used.has(gid)) taken.set(folder, gid);
    }
    return taken;
  }

  #free(taken: ReadonlyMap<string, number>): number {
    const used = new Set(taken.values());
    for (let uid = this.#first + 1; uid < this.#last; uid += 1) if (!used.has(uid)) return uid;
    throw new SvcError("NO_CAPACITY", `All ${this.#last - this.#first - 1} users for workers are taken.`, {
      help: "Widen SVC_WORKER_UIDS and start the platform again.",
    });
  }
}
