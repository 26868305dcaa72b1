/** Volumes as the platform has them: reached from outside, measured now and then, and cleared of what broke off. */
import path from "node:path";
import { VOLUME_UPLOAD_KEPT_MS, VOLUMES_LOOK_MS, VOLUMES_MEASURE_MS, VOLUMES_PATIENCE_MS } from "../domain/limits.ts";
import { isWithin, type Volume, volumesAway } from "../domain/volume.ts";
import { NetworkFolder } from "../lib/network-folder.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { Store } from "../store/store.ts";
import { volumeLimits } from "../upkeep/volume-limits.ts";
import { DiskVolumes } from "../volumes/disk-volumes.ts";
import { VolumeSizes } from "../volumes/volume-sizes.ts";
import { rememberedMark, VolumesMark } from "../volumes/volumes-mark.ts";
import type { Config } from "./config.ts";

/** In the data directory, and in no backup: what is restored takes the folder that it finds. */
const VOLUMES_RECORD = "volumes-folder.json";

interface VolumesNeeds {
  readonly disk: NetworkFolder;
  readonly store: Store;
  readonly make: (volume: Volume) => Promise<void>;
  readonly clock: () => number;
  readonly told: (line: string) => void;
  readonly onError: (name: string, error: unknown) => void;
}

/** What should stand in the folder of the volumes, unless it lies in the data directory. */
export function knownMark({ volumesDir, dataDir }: Pick<Config, "volumesDir" | "dataDir">) {
  if (isWithin(volumesDir, dataDir)) return async () => undefined;
  return rememberedMark(volumesDir, path.join(dataDir, VOLUMES_RECORD));
}

/** It is looked at now and then. `told` hears when it goes, and when it is back. `known`: what should stand in its mark. */
export function openVolumesDisk(
  folder: string,
  told: (line: string) => void,
  known: () => Promise<string | undefined> = async () => undefined,
): NetworkFolder {
  const mark = new VolumesMark(folder, known);
  const disk = new NetworkFolder(folder, {
    patienceMs: VOLUMES_PATIENCE_MS,
    refusal: () => volumesAway(folder),
    check: () => mark.check(),
    told: (problem) => told(problem?.message ?? "The disk of the volumes is back."),
  });
  disk.watch(VOLUMES_LOOK_MS);
  return disk;
}

export class Volumes {
  readonly #disk: NetworkFolder;
  readonly store: DiskVolumes;
  readonly #store: Store;
  readonly #sizes: VolumeSizes;
  readonly #clock: () => number;
  readonly #measured: Reconciler;
  #sweepBefore: number;

  constructor({ disk, store, make, clock, told, onError }: VolumesNeeds) {
    this.#disk = disk;
    this.#store = store;
    this.#clock = clock;
    // What an earlier run of the platform left is of no use any more.
    this.#sweepBefore = clock();
    this.#sizes = new VolumeSizes(disk, told);
    this.store = new DiskVolumes({ disk, sizes: this.#sizes, make });
    this.#measured = new Reconciler("volumes", VOLUMES_MEASURE_MS, () => this.#measure(), onError);
  }

  get notices(): readonly string[] {
    const { problem } = this.#disk;
    return problem === undefined ? [] : [`${problem.message} Workers without volumes go on, without their caches.`];
  }

  isFull(volume: Volume): boolean {
    return this.#sizes.isFull(volume);
  }

  /** Files came or went. */
  changed(): void {
    this.#measured.nudge();
  }

  /** Endpoints came, went or have other volumes. */
  async readLimits(): Promise<void> {
    this.#sizes.limit(await volumeLimits(this.#store));
  }

  start(): void {
    this.#measured.start();
    this.#measured.nudge();
  }

  stop(): Promise<void> {
    this.#sizes.close();
    return this.#measured.stop();
  }

  async #measure(): Promise<void> {
    await this.store.sweep(this.#sweepBefore);
    this.#sweepBefore = Math.max(this.#sweepBefore, this.#clock() - VOLUME_UPLOAD_KEPT_MS);
    await this.readLimits();
    await this.#sizes.measure();
  }
}
