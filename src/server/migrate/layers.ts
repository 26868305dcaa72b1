/** Layers on their way between the disk and a bucket. Each is hashed as it arrives; what broke off goes on behind what is there. */
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import type { ArtifactStore } from "../../artifacts/artifact-store.ts";
import { copyLayer } from "../../artifacts/cached-artifacts.ts";
import { layerDigest } from "../../artifacts/layer-words.ts";
import { SvcError } from "../../domain/errors.ts";
import type { Bucket } from "../../s3/bucket.ts";

export interface MovedLayers {
  readonly count: number;
  readonly bytes: number;
  /** Of kept builds, and nowhere: missing before. */
  readonly missing: number;
}

interface LayerMove {
  readonly from: ArtifactStore;
  /** Undefined: they are only looked at. */
  readonly to: ArtifactStore | undefined;
  readonly needed: ReadonlySet<string>;
  /** Where one lies, for people. */
  readonly placeOf: (digest: string) => string;
  readonly told: (done: number, of: number, bytes: number) => void;
  readonly signal: AbortSignal;
}

export async function moveLayers({ from, to, needed, placeOf, told, signal }: LayerMove): Promise<MovedLayers> {
  const digests = (await from.list()).sort();
  let bytes = 0;
  for (const [index, digest] of digests.entries()) {
    signal.throwIfAborted();
    told(index, digests.length, bytes);
    try {
      if (to === undefined) await hashWhole(from, digest);
      else if (!(await to.has(digest))) await copyLayer(from, to, digest);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "LAYER_CORRUPT") throw error;
      throw new SvcError(
        "LAYER_CORRUPT",
        `A layer is damaged where it is: its bytes do not hash to its name ${digest}.`,
        {
          where: placeOf(digest),
          help: "Restore it from a backup. Or remove it, and after the move deploy what uses it once more.",
          cause: error,
        },
      );
    }
    bytes += (await from.size(digest)) ?? 0;
  }
  const there = new Set(digests);
  return { count: digests.length, bytes, missing: [...needed].filter((digest) => !there.has(digest)).length };
}

async function hashWhole(from: ArtifactStore, digest: string): Promise<void> {
  if ((await layerDigest(await from.open(digest))) !== digest)
    throw new SvcError("LAYER_CORRUPT", "It hashes to another digest.");
}

/** The platform makes none: what one leads to is not its own. */
export async function refuseLinks(folder: string): Promise<void> {
  if (!existsSync(folder)) return;
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const link = entries.find((entry) => entry.isSymbolicLink());
  if (link === undefined) return;
  throw new SvcError(
    "DATA_DIRECTORY",
    "A symbolic link lies where the platform keeps its own files: it is not followed.",
    {
      where: path.join(link.parentPath, link.name),
      help: "Put the file itself there, or remove the link.",
    },
  );
}

/** In the bucket, beside what is moved there. */
const MARK = "migration";

/** Throws CONFLICT for a bucket in which another platform, or another move, has something. */
export async function markBucket(bucket: Bucket, id: string, write: boolean): Promise<void> {
  for await (const { key } of bucket.list("", 2)) {
    if (key === "probe") continue;
    if ((await bucket.read(MARK))?.toString() === id) return;
    throw new SvcError("CONFLICT", `The bucket holds objects already, as "${bucket.settings.prefix}${key}".`, {
      where: bucket.settings.name,
      help: "Name an empty bucket, or a prefix of its own: SVC_S3_PREFIX.",
    });
  }
  if (write) await bucket.put(MARK, Buffer.from(id));
}

export async function unmarkBucket(bucket: Bucket): Promise<void> {
  await bucket.delete(MARK);
}
