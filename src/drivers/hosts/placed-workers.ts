/** How many workers of each endpoint a machine has: who is placed beside others asks for it. */
export class PlacedWorkers {
  readonly #endpoints = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  /** By endpoint. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** Counts it once. */
  add(workerId: string, endpointId: string): void {
    if (this.#endpoints.has(workerId)) return;
    this.#endpoints.set(workerId, endpointId);
    this.#counts.set(endpointId, (this.#counts.get(endpointId) ?? 0) + 1);
  }

  delete(workerId: string): void {
    const endpointId = this.#endpoints.get(workerId);
    if (endpointId === undefined) return;
    this.#endpoints.delete(workerId);
    const left = (this.#counts.get(endpointId) ?? 1) - 1;
    if (left > 0) this.#counts.set(endpointId, left);
    else this.#counts.delete(endpointId);
  }
}
