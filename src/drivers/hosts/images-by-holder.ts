/**
 * Images that are in use. A Pod runs those of its holder alone: with thousands of endpoints on as many Pods, it is not asked of each of them whether a
 * Pod may run it.
 */
import { imageKey } from "../../domain/placement.ts";
import type { WorkerImage } from "../worker-driver.ts";
import { holdersOf, type KnownHost, mayRun } from "./known-host.ts";

type Images = Map<string, WorkerImage>;

export class ImagesByHolder {
  readonly #all: Images = new Map();
  readonly #byHolder = new Map<string, Images>();

  add(image: WorkerImage): void {
    const key = imageKey(image);
    this.delete(key);
    this.#all.set(key, image);
    for (const holder of holdersOf(image)) {
      const its: Images = this.#byHolder.get(holder) ?? new Map();
      this.#byHolder.set(holder, its.set(key, image));
    }
  }

  delete(key: string): void {
    const image = this.#all.get(key);
    if (image === undefined) return;
    this.#all.delete(key);
    for (const holder of holdersOf(image)) {
      const its = this.#byHolder.get(holder);
      its?.delete(key);
      if (its?.size === 0) this.#byHolder.delete(holder);
    }
  }

  /** By key. */
  get all(): ReadonlyMap<string, WorkerImage> {
    return this.#all;
  }

  /** What may run there, the newest first: what is replaced is least likely to be needed. */
  for(row: KnownHost): WorkerImage[] {
    const some = row.pod === "" ? this.#all : this.#byHolder.get(row.holder);
    return [...(some?.values() ?? [])].filter((image) => mayRun(image)(row)).reverse();
  }
}
