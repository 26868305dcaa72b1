import { CACHED_BUILDS_MAX } from "../domain/limits.ts";
import type { Store } from "./store.ts";

/** The source layer of each build, by the build's id. A build never changes, so what is known stays true. */
export function createSourceLayers(
  store: Store,
): (buildId: string) => string | undefined | Promise<string | undefined> {
  const known = new Map<string, string>();

  async function load(buildId: string): Promise<string | undefined> {
    const layer = (await store.builds.find(buildId))?.manifest.sourceLayer;
    if (layer === undefined) return undefined;
    if (known.size >= CACHED_BUILDS_MAX) known.clear();
    known.set(buildId, layer);
    return layer;
  }

  return (buildId) => known.get(buildId) ?? load(buildId);
}
