/**
 * Bodies too large for a row: each is put under a name of its own before the row that names it is written, and deleted after
 * the last such row. What a crash leaves in between is named by no row; orphans.ts finds it.
 */
import { randomUUID } from "node:crypto";
import { type BodyStore, dayOf } from "../bodies/body-store.ts";
import type { BodyPlace } from "../machine/stored-bodies.ts";

export class BodyNames implements BodyPlace {
  readonly #store: BodyStore;
  readonly #clock: () => number;
  /** Called with deletions that nobody waits for. */
  readonly #own: (deleting: Promise<unknown>) => void;
  /** Put, and in a batch that was written or is on its way. */
  readonly #named = new Set<string>();
  /** Put or being put, and perhaps in no row yet. */
  readonly #held = new Set<string>();

  constructor(store: BodyStore, clock: () => number, own: (deleting: Promise<unknown>) => void) {
    this.#store = store;
    this.#clock = clock;
    this.#own = own;
  }

  async refer(jobId: string, bytes: Uint8Array): Promise<string> {
    return `${dayOf(this.#clock())}/${jobId.replaceAll(/[^\w-]/g, "_")}/${randomUUID()}.${bytes.byteLength}`;
  }

  async hold(reference: string, bytes: Uint8Array): Promise<void> {
    this.#held.add(reference);
    try {
      await this.#store.put(reference, bytes);
    } catch (error) {
      this.#held.delete(reference);
      throw error;
    }
  }

  isHeld(reference: string): boolean {
    return this.#held.has(reference);
  }

  /** A row has it from this batch on. */
  named(reference: string): void {
    this.#named.add(reference);
  }

  release(reference: string): void {
    this.#held.delete(reference);
    if (!this.#named.delete(reference)) this.drop(reference);
  }

  read(reference: string): Promise<Uint8Array | undefined> {
    return this.#store.get(reference);
  }

  /** Those that were put on days before that of `before`. */
  listed(before: number): AsyncIterable<string> {
    return this.#store.list(before);
  }

  delete(references: readonly string[]): Promise<void> {
    return this.#store.delete(references);
  }

  /** No row has it any more. */
  drop(reference: string): void {
    this.#own(this.#store.delete([reference]));
  }
}
