/** Numbers that bound what the platform does with a bucket. */

const MB = 1024 * 1024;

/** A request to the bucket: to connect, of silence, and how often it is tried. */
export const BUCKET_CONNECT_MAX_MS = 5_000;
export const BUCKET_ANSWER_MAX_MS = 30_000;
export const BUCKET_TRIES_MAX = 4;
export const BUCKET_CONNECTIONS_MAX = 64;
/** The platform asks so often whether the bucket answers, and so often while it does not. */
export const BUCKET_CHECK_MS = 15_000;
export const BUCKET_AWAY_CHECK_MS = 2_000;
/** A layer above the first goes to the bucket in parts of this size, so many at once. */
export const BUCKET_PART_BYTES = 8 * MB;
export const BUCKET_PARTS_AT_ONCE = 3;
/** That a layer is used is written to the bucket at most so often. */
export const BUCKET_USE_MS = 3_600_000;
/** The bucket's clock may be so far from ours, or know seconds only. */
export const BUCKET_CLOCK_MS = 1_000;
/** Of the bucket's layers so much is kept on the platform's disk, unless SVC_S3_CACHE_MB says otherwise. */
export const BUCKET_CACHE_BYTES = 20_480 * MB;
/** A layer that broke off on its way from the bucket goes on so often. */
export const BUCKET_FETCH_TRIES_MAX = 5;
/** Bodies of jobs that are deleted at once. */
export const BODY_DELETES_AT_ONCE = 16;
