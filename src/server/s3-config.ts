/** The settings of the bucket. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { BUCKET_CACHE_BYTES } from "../domain/limits.ts";
import type { BucketSettings } from "../s3/bucket-settings.ts";
import { flag } from "./flag.ts";

const MB = 1024 * 1024;
const cacheMb = "must be a number from 1 to 1000000000";

/** One line per key, as in config.ts. */
export const s3Keys = {
  /** Layers and large bodies are kept in this bucket of an S3 instead of on the disk. */
  SVC_S3_BUCKET: z
    .string()
    .regex(/^[\w.-]{3,255}$/, "is not the name of a bucket")
    .optional(),
  /** Where the S3 answers; default: AWS. */
  SVC_S3_ENDPOINT: z
    .url({ protocol: /^https?$/, error: "is not an address that begins with http:// or https://" })
    .optional(),
  SVC_S3_REGION: z.string().optional(),
  /** Before the name of every object. */
  SVC_S3_PREFIX: z
    .string()
    .regex(/^[\w.!*'()/-]{0,500}$/, "has characters that names of objects should not have")
    .default(""),
  /** The bucket stands in the path of addresses, not in their host. */
  SVC_S3_PATH_STYLE: flag.optional(),
  /** Default: as AWS's programs find them, in AWS_…, ~/.aws or the machine's role. */
  SVC_S3_ACCESS_KEY_ID: z.string().optional(),
  SVC_S3_SECRET_ACCESS_KEY: z.string().optional(),
  SVC_S3_SECRET_ACCESS_KEY_FILE: z.string().optional(),
  /** Machines that joined get layers from the bucket itself. */
  SVC_S3_PRESIGN: flag.default(false),
  /** MB of layers that are also kept on this machine's disk. */
  SVC_S3_CACHE_MB: z.coerce
    .number({ error: cacheMb })
    .min(1, cacheMb)
    .max(1e9, cacheMb)
    .default(BUCKET_CACHE_BYTES / MB),
};

export interface S3Config extends BucketSettings {
  readonly cacheBytes: number;
  /** Machines that joined are given presigned addresses of layers. */
  readonly presign: boolean;
}

type Given = z.output<z.ZodObject<typeof s3Keys>>;

/** Undefined without a bucket. Throws CONFIG_INVALID. */
export function readS3(given: Given): S3Config | undefined {
  const name = given.SVC_S3_BUCKET;
  const bad = (message: string) =>
    new SvcError("CONFIG_INVALID", message, { help: "The keys are described in docs/reference/config.md." });
  if (name === undefined) {
    const alone = (["SVC_S3_ENDPOINT", "SVC_S3_ACCESS_KEY_ID"] as const).find((key) => given[key] !== undefined);
    if (alone !== undefined) throw bad(`${alone}: counts only with SVC_S3_BUCKET`);
    return undefined;
  }
  const id = given.SVC_S3_ACCESS_KEY_ID;
  const secret = given.SVC_S3_SECRET_ACCESS_KEY ?? secretIn(given.SVC_S3_SECRET_ACCESS_KEY_FILE);
  if ((id === undefined) !== (secret === undefined)) {
    throw bad(
      "SVC_S3_ACCESS_KEY_ID: goes with SVC_S3_SECRET_ACCESS_KEY or SVC_S3_SECRET_ACCESS_KEY_FILE, and they with it",
    );
  }
  const prefix = given.SVC_S3_PREFIX.replace(/^\/+|\/+$/g, "");
  return {
    name,
    endpoint: given.SVC_S3_ENDPOINT,
    region: given.SVC_S3_REGION,
    prefix: prefix === "" ? "" : `${prefix}/`,
    pathStyle: given.SVC_S3_PATH_STYLE ?? given.SVC_S3_ENDPOINT !== undefined,
    keys: id === undefined ? undefined : { id, secret: secret! },
    presign: given.SVC_S3_PRESIGN,
    cacheBytes: Math.floor(given.SVC_S3_CACHE_MB * MB),
  };
}

function secretIn(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw new SvcError(
      "CONFIG_INVALID",
      `SVC_S3_SECRET_ACCESS_KEY_FILE: cannot be read (${(cause as Error).message})`,
      { cause },
    );
  }
}
