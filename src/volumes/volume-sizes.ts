/**
 * How much each volume holds. Disks seldom have quotas for folders, so `du` looks now and then, beside the work: what is written
 * in between is not held up. Above its limit a volume is full: no worker that writes to it is started, and no upload is taken.
 */
import path from "node:path";
import type { Volume } from "../domain/volume.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { runProcess } from "../lib/run-process.ts";
import { unlessAborted } from "../lib/unless-aborted.ts";
import type { VolumeUse } from "./volume-store.ts";

/** "app/environment/name" of each volume that has one → bytes. */
export type VolumeLimits = ReadonlyMap<string, number>;

export class VolumeSizes {
  readonly #disk: NetworkFolder;
  readonly #told: (line: string) => void;
  readonly #sizes = new Map<string, number>();
  readonly #full = new Set<string>();
  readonly #closing = new AbortController();
  #limits: VolumeLimits = new Map();

  /** `told` hears once of each volume that is full, and of its end. */
  constructor(disk: NetworkFolder, told: (line: string) => void) {
    this.#disk = disk;
    this.#told = told;
  }

  use(volume: Volume): VolumeUse {
    const key = volumeKey(volume);
    return { sizeBytes: this.#sizes.get(key), limitBytes: this.#limits.get(key) };
  }

  isFull(volume: Volume): boolean {
    return this.#full.has(volumeKey(volume));
  }

  /** What the endpoints that are deployed now say. */
  limit(limits: VolumeLimits): void {
    this.#limits = limits;
    for (const [key, bytes] of this.#sizes) this.#note(key, bytes);
  }

  async measure(): Promise<void> {
    const there = new Set<string>();
    for await (const key of this.#disk.entries(this.#disk.path, 3)) {
      there.add(key);
      const { signal } = this.#closing;
      const looked = diskUse(path.join(this.#disk.path, key), signal);
      // On a disk that does not answer it does not end when it is told to.
      const bytes = await unlessAborted(looked, signal).catch(() => undefined);
      if (signal.aborted) return;
      if (bytes !== undefined) this.#note(key, bytes);
    }
    for (const key of this.#sizes.keys()) if (!there.has(key)) this.#forget(key);
  }

  #note(key: string, bytes: number): void {
    this.#sizes.set(key, bytes);
    const limit = this.#limits.get(key);
    const isFull = limit !== undefined && bytes > limit;
    if (isFull === this.#full.has(key)) return;
    if (isFull) {
      this.#full.add(key);
      this.#told(`The volume ${key} holds ${bytes} bytes, more than its limit of ${limit}: it takes nothing new.`);
    } else {
      this.#full.delete(key);
      this.#told(`The volume ${key} is below its limit again.`);
    }
  }

  close(): void {
    this.#closing.abort();
  }

  #forget(key: string): void {
    this.#sizes.delete(key);
    this.#full.delete(key);
  }
}

export function volumeKey({ app, environment, name }: Volume): string {
  return `${app}/${environment}/${name}`;
}

/** Undefined when it cannot be told. Links are not followed, and other file systems are not entered. */
async function diskUse(folder: string, signal: AbortSignal): Promise<number | undefined> {
  // It also prints a sum when something went away while it looked.
  const { stdout } = await runProcess("nice", ["-n", "19", "du", "-skx", "--", folder], { signal });
  const kilobytes = /^(\d+)\t/.exec(stdout)?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}
