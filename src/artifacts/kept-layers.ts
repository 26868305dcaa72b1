/**
 * Layers that are elsewhere, kept on this machine's disk from when they are first asked for, within a bound: those that were not
 * asked for longest go first. Two who ask for one share its fetching.
 */
import type { ArtifactStore } from "./artifact-store.ts";

interface KeptLayersOptions {
  readonly kept: ArtifactStore;
  /** What they may take there together. */
  readonly keptMaxBytes: number;
  /** Puts the layer into `kept`, or throws. */
  readonly fetch: (digest: string) => Promise<void>;
}

export class KeptLayers {
  readonly #options: KeptLayersOptions;
  readonly #fetching = new Map<string, Promise<void>>();
  /** Bytes by digest, those used last at the end. */
  readonly #sizes = new Map<string, number>();

  constructor(options: KeptLayersOptions) {
    this.#options = options;
  }

  /** Call before all else. */
  async open(): Promise<void> {
    const { kept } = this.#options;
    for (const digest of await kept.list()) this.#sizes.set(digest, (await kept.size(digest)) ?? 0);
  }

  has(digest: string): boolean {
    return this.#sizes.has(digest);
  }

  /** Resolves when the layer is kept. */
  async ensure(digest: string): Promise<void> {
    const size = await this.#options.kept.size(digest);
    if (size !== undefined) {
      this.#used(digest, size);
      return;
    }
    let work = this.#fetching.get(digest);
    if (work === undefined) {
      work = this.#fetch(digest).finally(() => this.#fetching.delete(digest));
      this.#fetching.set(digest, work);
    }
    await work;
  }

  /** As of a store. It is fetched anew when it is next asked for. */
  async dropDamaged(digest: string): Promise<boolean> {
    const dropped = await this.#options.kept.dropDamaged(digest);
    if (dropped) this.#sizes.delete(digest);
    return dropped;
  }

  async #fetch(digest: string): Promise<void> {
    const { kept, fetch } = this.#options;
    await fetch(digest);
    this.#used(digest, (await kept.size(digest)) ?? 0);
    await this.#keepWithinBounds(digest);
  }

  #used(digest: string, bytes: number): void {
    this.#sizes.delete(digest);
    this.#sizes.set(digest, bytes);
  }

  async #keepWithinBounds(newest: string): Promise<void> {
    const { kept, keptMaxBytes } = this.#options;
    let total = [...this.#sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
    for (const [digest, bytes] of [...this.#sizes]) {
      if (total <= keptMaxBytes) return;
      if (digest === newest || !(await kept.deleteUnused(digest, Number.POSITIVE_INFINITY))) continue;
      this.#sizes.delete(digest);
      total -= bytes;
    }
  }
}
