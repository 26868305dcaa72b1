/** Revisions that must still show that they start. */
import type { Endpoint, Worker } from "../store/store.ts";

type Revised = Pick<Endpoint, "id" | "revision">;

export class Unproven {
  readonly #revisions = new Set<string>();

  has(revision: string): boolean {
    return this.#revisions.has(revision);
  }

  /** It has started, or nobody waits for it any more. */
  delete(revision: string): void {
    this.#revisions.delete(revision);
  }

  /**
   * The revisions of `endpoints`, but those of which a worker started: one that a failed deploy has left running. `read`: the workers
   * they have. Resolves the endpoints of those that need show nothing.
   */
  async add(endpoints: readonly Revised[], read: () => Promise<Worker[]>): Promise<readonly Revised[]> {
    if (endpoints.length === 0) return [];
    for (const { revision } of endpoints) this.#revisions.add(revision);
    const rows = await read();
    const ready = new Set(rows.filter(({ state }) => state === "READY").map(({ revision }) => revision));
    const shown = endpoints.filter(({ revision }) => ready.has(revision));
    for (const { revision } of shown) this.#revisions.delete(revision);
    return shown;
  }
}
