/**
 * Which stored layers a caller may build on. A layer is found by its digest alone, so a key that is bound to an environment gets one
 * only when a build of that environment has it, or when the caller has sent its bytes: whoever merely learnt a digest has not.
 * To be forgotten at a restart costs such a caller one more upload.
 */
import { hash } from "node:crypto";
import type { Principal } from "../domain/api-key.ts";
import { LAYER_CLAIMS_MAX } from "../domain/limits.ts";
import { manifestLayers } from "../domain/manifest.ts";
import type { Store } from "../store/store.ts";

export class LayerClaims {
  readonly #store: Store;
  readonly #sent = new Set<string>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** The caller has sent the whole layer. */
  sent(principal: Principal, digest: string): void {
    if (!isBound(principal)) return;
    if (this.#sent.size >= LAYER_CLAIMS_MAX) this.#sent.clear();
    this.#sent.add(claim(principal, digest));
  }

  /** Of `digests`, those that the caller may use once they are stored. */
  async usable(principal: Principal, digests: readonly string[]): Promise<ReadonlySet<string>> {
    if (!isBound(principal)) return new Set(digests);
    const usable = new Set(digests.filter((digest) => this.#sent.has(claim(principal, digest))));
    if (usable.size === digests.length || principal.environmentId === null) return usable;
    for (const { manifest } of await this.#store.builds.listByEnvironment(principal.environmentId)) {
      for (const digest of manifestLayers(manifest)) if (digests.includes(digest)) usable.add(digest);
    }
    return usable;
  }
}

function isBound({ environmentId, endpointId }: Principal): boolean {
  return environmentId !== null || Boolean(endpointId);
}

function claim({ environmentId, endpointId }: Principal, digest: string): string {
  return hash("sha256", JSON.stringify([environmentId, endpointId ?? null, digest]));
}
