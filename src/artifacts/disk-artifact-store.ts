/**
 * Layers as files: <dir>/<first two digits>/<digest>. Bytes go to a partial file that is checked, synced and then
 * renamed, so a file under its digest is always whole, also after a crash.
 */
import { randomUUID } from "node:crypto";
import { open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { LAYER_READ_BYTES } from "../domain/limits.ts";
import { diskRefused } from "../domain/storage.ts";
import { makeDurableFolder, syncFolder } from "../lib/durable-folder.ts";
import { ifThere } from "../lib/if-there.ts";
import type { ArtifactStore } from "./artifact-store.ts";
import { isDigest, layerDigest, layerMissing, requireDigest } from "./layer-words.ts";
import { PartialLayers } from "./partial-layers.ts";

const INCOMING = "incoming";

/** Makes `dir` when it is missing. What arrived of a layer before the platform ended is kept. */
export async function openDiskArtifactStore(dir: string): Promise<ArtifactStore> {
  const incoming = join(dir, INCOMING);
  await makeDurableFolder(incoming, 0o700);
  const leftovers = (await readdir(incoming)).filter((name) => !PartialLayers.isPartial(name));
  for (const name of leftovers) await rm(join(incoming, name), { recursive: true, force: true });
  const partial = new PartialLayers(incoming);

  return {
    has: async (digest) => (await ofDisk(use(pathOf(dir, digest)))) !== undefined,
    size: async (digest) => ofDisk(use(pathOf(dir, digest))),
    async put(digest, bytes, maxBytes, offset = 0) {
      const path = pathOf(dir, digest);
      await partial.receive(digest, offset, bytes, maxBytes, async (whole) => {
        const folder = join(path, "..");
        await makeDurableFolder(folder, 0o700);
        await rename(whole, path);
        await syncFolder(folder);
      });
    },
    async partialSize(digest) {
      pathOf(dir, digest);
      return ofDisk(partial.size(digest));
    },
    async open(digest, part) {
      const path = pathOf(dir, digest);
      try {
        // Opened here, so that a missing layer is an error now and a layer deleted later is still read to its end.
        const file = await open(path, "r");
        return file.createReadStream({ highWaterMark: LAYER_READ_BYTES, ...part });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        throw layerMissing(digest);
      }
    },
    async list() {
      const entries = await readdir(dir, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile() && isDigest(entry.name)).map((entry) => entry.name);
    },
    async deleteUnused(digest, before) {
      const path = pathOf(dir, digest);
      // Out of the way first: a use before that shows in its time, and after it nobody is told that it is there.
      const aside = join(incoming, randomUUID());
      if (!(await renamed(path, aside))) return true;
      const isUsed = (await stat(aside)).mtimeMs >= before;
      if (isUsed) await rename(aside, path);
      else await rm(aside);
      return !isUsed;
    },
    async dropDamaged(digest) {
      const path = pathOf(dir, digest);
      if (await ifThere(isWhole(path, digest)).then((whole) => whole ?? true)) return false;
      await rm(path, { force: true });
      return true;
    },
    deleteUnusedPartials: (before) => partial.removeUnused(before),
  };
}

/** A file that cannot be read to its end is not. */
async function isWhole(path: string, digest: string): Promise<boolean> {
  const file = await open(path, "r");
  try {
    return (await layerDigest(file.createReadStream({ highWaterMark: LAYER_READ_BYTES }))) === digest;
  } catch {
    return false;
  }
}

/** Throws BAD_INPUT. */
function pathOf(dir: string, digest: string): string {
  requireDigest(digest);
  return join(dir, digest.slice(0, 2), digest);
}

function ofDisk<T>(work: Promise<T>): Promise<T> {
  return work.catch((error) => {
    throw diskRefused(error);
  });
}

/** Its size, and a file time of now; undefined when it is not there. */
async function use(path: string): Promise<number | undefined> {
  const now = new Date();
  const found = await ifThere(utimes(path, now, now).then(() => stat(path)));
  return found?.size;
}

async function renamed(from: string, to: string): Promise<boolean> {
  return (await ifThere(rename(from, to).then(() => true))) ?? false;
}
