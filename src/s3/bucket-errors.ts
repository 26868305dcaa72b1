/** What an S3 answered, in words for whoever runs the platform. */
import { SvcError } from "../domain/errors.ts";
import type { BucketSettings } from "./bucket-settings.ts";

interface Words {
  readonly what: (settings: BucketSettings) => string;
  readonly help: string;
}

const KEYS =
  "Check SVC_S3_ACCESS_KEY_ID and SVC_S3_SECRET_ACCESS_KEY (or _FILE), or the credentials that the machine or AWS_… give.";
const REGION: Words = {
  what: ({ name, region }) => `The bucket "${name}" is not in the region ${region ?? "that the platform asks"}.`,
  help: "Set SVC_S3_REGION to the bucket's own region, and SVC_S3_ENDPOINT to where it is.",
};
const REFUSED: Words = {
  what: ({ name, prefix }) => `The bucket "${name}" refuses the platform's key what it needs${below(prefix)}.`,
  help: "Allow it to list the bucket, and to get, put and delete objects there (docs/operate/object-storage.md).",
};
const WRONG_KEYS: Words = { what: ({ name }) => `The keys for the bucket "${name}" are wrong.`, help: KEYS };
/** Of Node: whose certificate it is, by whom, until when. */
const CERTIFICATE = /^(CERT_|ERR_TLS_CERT|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_CERT)/;
const EXPIRED: Words = {
  what: ({ name }) => `The credentials for the bucket "${name}" have expired.`,
  help: "Give the platform new ones, or let it take them where they are renewed (a role of the machine or the Pod).",
};

/** By the code of the answer. Nothing that a later try could change. */
const REFUSALS: Readonly<Record<string, Words>> = {
  NoSuchBucket: {
    what: ({ name }) => `There is no bucket "${name}".`,
    help: "Make it, or correct SVC_S3_BUCKET and SVC_S3_ENDPOINT.",
  },
  InvalidBucketName: {
    what: ({ name }) => `"${name}" cannot be the name of a bucket.`,
    help: "Correct SVC_S3_BUCKET.",
  },
  PermanentRedirect: REGION,
  AuthorizationHeaderMalformed: REGION,
  IllegalLocationConstraintException: REGION,
  AccessDenied: REFUSED,
  AllAccessDisabled: REFUSED,
  Forbidden: REFUSED,
  InvalidAccessKeyId: WRONG_KEYS,
  SignatureDoesNotMatch: WRONG_KEYS,
  InvalidToken: WRONG_KEYS,
  CredentialsProviderError: { what: ({ name }) => `There are no keys for the bucket "${name}".`, help: KEYS },
  ExpiredToken: EXPIRED,
  TokenRefreshRequired: EXPIRED,
  RequestTimeTooSkewed: {
    what: ({ name }) => `The clocks of the platform and of the bucket "${name}" are too far apart.`,
    help: "Set the machine's clock (NTP).",
  },
  EntityTooLarge: {
    what: ({ name }) => `The bucket "${name}" refuses an object of that size.`,
    help: "Raise its limit.",
  },
  QuotaExceeded: { what: ({ name }) => `The bucket "${name}" is full.`, help: "Raise its quota or make room in it." },
  InsufficientStorage: { what: ({ name }) => `The bucket "${name}" is full.`, help: "Make room where it is kept." },
};

/** The object or upload that was asked for is not there; the bucket is. */
export function isMissing(error: unknown): boolean {
  const { name } = error as { name?: string };
  return name === "NoSuchKey" || name === "NotFound" || name === "NoSuchUpload";
}

/** BUCKET_REFUSED, or BUCKET_AWAY where a later try may go better. */
export function inWords(error: unknown, settings: BucketSettings): SvcError {
  if (error instanceof SvcError) return error;
  const words = REFUSALS[codeOf(error)];
  if (words !== undefined) {
    return new SvcError("BUCKET_REFUSED", words.what(settings), { help: words.help, cause: error });
  }
  if (CERTIFICATE.test((error as { code?: string } | undefined)?.code ?? "")) {
    const message = `The certificate of the bucket "${settings.name}"${at(settings)} is not trusted: ${reasonOf(error)}.`;
    return new SvcError("BUCKET_REFUSED", message, {
      help: "Where an authority of your own has signed it, start the platform with NODE_EXTRA_CA_CERTS=FILE (PEM); or correct SVC_S3_ENDPOINT.",
      cause: error,
    });
  }
  const status = statusOf(error);
  if (status >= 400 && status < 500 && !MAY_GO_BETTER.has(status)) {
    const message = `The bucket "${settings.name}" refuses a request of the platform: ${reasonOf(error)}.`;
    return new SvcError("BUCKET_REFUSED", message, { help: "Check the settings SVC_S3_… and the key.", cause: error });
  }
  return new SvcError(
    "BUCKET_AWAY",
    `The bucket "${settings.name}"${at(settings)} does not answer: ${reasonOf(error)}.`,
    {
      help: "Try again in a moment; what runs goes on meanwhile.",
      cause: error,
    },
  );
}

/** Too slow, at the same time as another, too many. */
const MAY_GO_BETTER = new Set([408, 409, 425, 429]);

function statusOf(error: unknown): number {
  return (error as { $metadata?: { httpStatusCode?: number } } | undefined)?.$metadata?.httpStatusCode ?? 0;
}

function codeOf(error: unknown): string {
  const { name = "", Code } = (error ?? {}) as { name?: string; Code?: string };
  if (name in REFUSALS) return name;
  // The answer to a HEAD has no body that would say more.
  const status = statusOf(error);
  if (status === 401) return "InvalidAccessKeyId";
  if (status === 301) return "PermanentRedirect";
  if (status === 403 && !(Code !== undefined && Code in REFUSALS)) return "AccessDenied";
  return Code ?? name;
}

/** The last of what failed one after the other. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { errors, code } = error as Error & { errors?: readonly unknown[]; code?: string };
  if (error.name === "TimeoutError") return "it took too long";
  if (error.name === "SlowDown" || error.name === "ServiceUnavailable") return "it asks for fewer requests";
  const inner = errors?.at(-1);
  if (error.message === "" && inner !== undefined) return reasonOf(inner);
  return error.message.replace(/\.$/, "") || code || error.name;
}

function at({ endpoint }: BucketSettings): string {
  return endpoint === undefined ? "" : ` at ${new URL(endpoint).host}`;
}

function below(prefix: string): string {
  return prefix === "" ? "" : ` below "${prefix}"`;
}
