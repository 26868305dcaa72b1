/**
 * Layers of a bucket as the platform's own machine uses them: unpacked from its disk, where they come once. What is stored, and
 * whether it is, the bucket alone says; hosts' ranges of a layer that is not here pass through.
 */
import { BUCKET_FETCH_TRIES_MAX } from "../domain/limits.ts";
import { lackOf } from "../domain/storage.ts";
import type { ArtifactStore } from "./artifact-store.ts";
import { KeptLayers } from "./kept-layers.ts";
import { layerMissing } from "./layer-words.ts";

export async function openCachedArtifacts(
  bucket: ArtifactStore,
  kept: ArtifactStore,
  keptMaxBytes: number,
): Promise<ArtifactStore> {
  const layers = new KeptLayers({ kept, keptMaxBytes, fetch: (digest) => copyLayer(bucket, kept, digest) });
  await layers.open();
  return {
    has: (digest) => bucket.has(digest),
    put: (digest, bytes, maxBytes, offset) => bucket.put(digest, bytes, maxBytes, offset),
    partialSize: (digest) => bucket.partialSize(digest),
    list: () => bucket.list(),
    // What is prepared here again needs no bucket.
    size: async (digest) => (await kept.size(digest)) ?? bucket.size(digest),
    async open(digest, part) {
      if (part !== undefined && !(await kept.has(digest))) return bucket.open(digest, part);
      await layers.ensure(digest);
      return kept.open(digest, part);
    },
    // The one here first: who was told of it alone keeps both.
    deleteUnused: async (digest, before) =>
      (await kept.deleteUnused(digest, before)) && bucket.deleteUnused(digest, before),
    dropDamaged: (digest) => layers.dropDamaged(digest),
    async deleteUnusedPartials(before) {
      await kept.deleteUnusedPartials(before);
      await bucket.deleteUnusedPartials(before);
    },
  };
}

/** What broke off goes on behind what has arrived. */
export async function copyLayer(from: ArtifactStore, to: ArtifactStore, digest: string): Promise<void> {
  const size = await from.size(digest);
  if (size === undefined) throw layerMissing(digest);
  for (let tries = 1; ; tries++) {
    const arrived = (await to.partialSize(digest)) ?? 0;
    const start = arrived < size ? arrived : 0;
    const bytes = await from.open(digest, start === 0 ? undefined : { start, end: size - 1 });
    try {
      return await to.put(digest, bytes, size, start);
    } catch (error) {
      bytes.destroy();
      if (tries === BUCKET_FETCH_TRIES_MAX || lackOf(error) !== undefined) throw error;
    }
  }
}
