/** Revisions that must still show that they start. */
import type { Worker } from "../store/store.ts";
import { ofWorker, type Revised, revisedKey } from "./boot-record.ts";

export class Unproven {
  readonly #known = new Set<string>();

  has(of: Revised): boolean {
    return this.#known.has(revisedKey(of));
  }

  /** It has started, or nobody waits for it any more. */
  delete(of: Revised): void {
    this.#known.delete(revisedKey(of));
  }

  /**
   * The revisions of `endpoints`, but those of which a worker started: one that a failed deploy has left running. `read`: the workers
   * they have. Resolves the endpoints of those that need show nothing.
   */
  async add(endpoints: readonly Revised[], read: () => Promise<Worker[]>): Promise<readonly Revised[]> {
    if (endpoints.length === 0) return [];
    for (const one of endpoints) this.#known.add(revisedKey(one));
    const rows = await read();
    const ready = new Set(rows.filter(({ state }) => state === "READY").map((row) => revisedKey(ofWorker(row))));
    const shown = endpoints.filter((one) => ready.has(revisedKey(one)));
    for (const one of shown) this.delete(one);
    return shown;
  }
}
