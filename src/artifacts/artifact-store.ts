/** Layers of builds, addressed by the SHA-256 (hex) of their bytes. What is stored never changes. */
import type { Readable } from "node:stream";

export interface ArtifactStore {
  /** To ask for a layer, here or by `size`, counts as a use of it. */
  has(digest: string): Promise<boolean>;
  /**
   * Streams the bytes in. Throws LAYER_CORRUPT when they do not hash to `digest` and TOO_LARGE when they pass
   * `maxBytes`; nothing is left behind then. Storing what is there already is fine.
   */
  put(digest: string, bytes: Readable, maxBytes: number): Promise<void>;
  /** Throws LAYER_MISSING when it is not there. */
  open(digest: string): Promise<Readable>;
  size(digest: string): Promise<number | undefined>;
  list(): Promise<string[]>;
  /**
   * Deletes the layer unless it was stored or asked for since `before` (milliseconds since the epoch). Resolves whether it
   * is gone. Who is told meanwhile that it is there can rely on it.
   */
  deleteUnused(digest: string, before: number): Promise<boolean>;
}
