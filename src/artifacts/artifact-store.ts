/** Layers of builds, addressed by the SHA-256 (hex) of their bytes. What is stored never changes. */
import type { Readable } from "node:stream";

export interface ArtifactStore {
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
  delete(digest: string): Promise<void>;
}
