/** Where layers are kept: on the disk, or in a bucket, with a part of them on the disk. */
import path from "node:path";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { openCachedArtifacts } from "../artifacts/cached-artifacts.ts";
import { openDiskArtifactStore } from "../artifacts/disk-artifact-store.ts";
import { S3ArtifactStore } from "../artifacts/s3-artifact-store.ts";
import { layerKey } from "../artifacts/s3-uploads.ts";
import type { SvcError } from "../domain/errors.ts";
import { LAYER_TICKET_S } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import { Bucket } from "../s3/bucket.ts";
import { BucketWatch } from "../s3/bucket-watch.ts";
import type { Config } from "./config.ts";

export interface BucketInUse {
  readonly bucket: Bucket;
  readonly watch: BucketWatch;
}

/** Undefined where none is set. Throws BUCKET_REFUSED. */
export async function openBucket({ s3 }: Config, log: Log): Promise<BucketInUse | undefined> {
  if (s3 === undefined) return undefined;
  const bucket = await Bucket.open(s3);
  const hooks = {
    began: ({ message, help }: SvcError) => log.error(`${message} ${help}`),
    ended: (awayMs: number) => log.info("the bucket can be used again", { awayMs: Math.round(awayMs) }),
  };
  const watch = new BucketWatch(bucket, hooks, () => performance.now());
  try {
    await watch.start();
  } catch (error) {
    bucket.close();
    throw error;
  }
  return { bucket, watch };
}

export async function openArtifacts(
  { dataDir, s3 }: Config,
  bucket: Bucket | undefined,
  clock: () => number,
): Promise<ArtifactStore> {
  if (bucket === undefined) return openDiskArtifactStore(path.join(dataDir, "artifacts"));
  const kept = await openDiskArtifactStore(path.join(dataDir, "layer-cache"));
  return openCachedArtifacts(new S3ArtifactStore(bucket, clock), kept, s3!.cacheBytes);
}

/** Presigned addresses of layers for machines that joined, as long as their tickets; undefined where that is not set. */
export function layerUrls(
  { s3 }: Config,
  bucket: Bucket | undefined,
): ((digest: string) => Promise<string>) | undefined {
  if (bucket === undefined || !s3!.presign) return undefined;
  return (digest) => bucket.presignedUrl(layerKey(digest), LAYER_TICKET_S);
}

/** What whoever looks at the platform is told while the bucket is away. */
export function bucketNotices(inUse: BucketInUse | undefined): string[] {
  const trouble = inUse?.watch.trouble;
  return trouble === undefined ? [] : [`${trouble.message} ${trouble.help} Deploys wait for it; calls go on.`];
}
