/**
 * Open calls that came with a worker's token. Each holds up the worker it came from, so the endpoint it waits for must
 * get a worker even when the machine is full, or both wait for ever.
 */
export interface OpenPeerCalls {
  /** Call the result when the call is answered. */
  enter(endpointId: string): () => void;
  waitFor(endpointId: string): boolean;
}

export class PeerCalls implements OpenPeerCalls {
  /** Endpoint → open calls. */
  readonly #open = new Map<string, number>();

  enter(endpointId: string): () => void {
    this.#open.set(endpointId, (this.#open.get(endpointId) ?? 0) + 1);
    return () => {
      const left = this.#open.get(endpointId)! - 1;
      if (left > 0) this.#open.set(endpointId, left);
      else this.#open.delete(endpointId);
    };
  }

  waitFor(endpointId: string): boolean {
    return this.#open.has(endpointId);
  }
}
