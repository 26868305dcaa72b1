/** Layers of builds, addressed by the SHA-256 (hex) of their bytes. What is stored never changes. */
import type { Readable } from "node:stream";

export interface ArtifactStore {
  /** To ask for a layer, here or by `size`, counts as a use of it. */
  has(digest: string): Promise<boolean>;
  /**
   * Streams the bytes in, behind the first `offset` (default 0: anew) of an upload that broke off. When `bytes` break off,
   * what arrived is kept for the next one. Throws LAYER_CORRUPT when the whole does not hash to `digest`, TOO_LARGE when it
   * passes `maxBytes` and STORAGE_FULL; nothing is left behind then. Throws CONFLICT, and reads nothing, while another upload
   * of it is under way and when `offset` is not what `partialSize` tells. Storing what is there already is fine.
   */
  put(digest: string, bytes: Readable, maxBytes: number, offset?: number): Promise<void>;
  /** Bytes that arrived so far, of an upload that broke off or is under way. */
  partialSize(digest: string): Promise<number | undefined>;
  /** All of it, or the bytes from `start` to `end`, both included. Throws LAYER_MISSING when it is not there. */
  open(digest: string, part?: { readonly start: number; readonly end: number }): Promise<Readable>;
  size(digest: string): Promise<number | undefined>;
  list(): Promise<string[]>;
  /**
   * Deletes the layer unless it was stored or asked for since `before` (milliseconds since the epoch). Resolves whether it
   * is gone. Who is told meanwhile that it is there can rely on it.
   */
  deleteUnused(digest: string, before: number): Promise<boolean>;
  /** Deletes the layer here when its bytes are not what the digest says, as a disk may make them. Resolves whether they were not. */
  dropDamaged(digest: string): Promise<boolean>;
  /** Deletes what arrived of layers whose upload broke off before `before` and was not continued. */
  deleteUnusedPartials(before: number): Promise<void>;
}
