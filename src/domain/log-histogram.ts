/**
 * How often a duration was met, in buckets that grow by a quarter of a doubling: what is read from it is exact to 9 %.
 * A plain array of integers: counting makes nothing new.
 */
const BUCKETS_PER_DOUBLING = 4;
/** Shorter durations are in the first bucket, which counts as 0. */
const FIRST_MS = 0.25;
/** Up to 12 days; longer ones are in the last. */
export const HISTOGRAM_BUCKETS = 128;

/** Bucket and its count, of those that are not empty, by bucket. */
export type SparseHistogram = readonly (readonly [bucket: number, count: number])[];

export class LogHistogram {
  /** Whole numbers; sums of years fit too. */
  readonly counts = new Float64Array(HISTOGRAM_BUCKETS);
  total = 0;
  sumMs = 0;

  /** Milliseconds; a negative one, as a clock that was set makes it, counts as 0. */
  add(ms: number): void {
    this.counts[bucketOf(ms)]! += 1;
    this.total += 1;
    if (ms > 0) this.sumMs += ms;
  }

  merge(other: LogHistogram): void {
    for (let bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) this.counts[bucket]! += other.counts[bucket]!;
    this.total += other.total;
    this.sumMs += other.sumMs;
  }

  sparse(): SparseHistogram {
    return sparseOf(this.counts);
  }
}

function bucketOf(ms: number): number {
  if (!(ms >= FIRST_MS)) return 0;
  const bucket = 1 + Math.floor(Math.log2(ms / FIRST_MS) * BUCKETS_PER_DOUBLING);
  return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/** The longest duration that a bucket counts, in milliseconds. */
export function upperBoundMs(bucket: number): number {
  return FIRST_MS * 2 ** (bucket / BUCKETS_PER_DOUBLING);
}

/** Several as one. */
export class HistogramSum {
  readonly #counts = new Float64Array(HISTOGRAM_BUCKETS);

  add(histogram: SparseHistogram): void {
    for (const [bucket, count] of histogram) this.#counts[bucket]! += count;
  }

  get sparse(): SparseHistogram {
    return sparseOf(this.#counts);
  }
}

function sparseOf(counts: Float64Array): SparseHistogram {
  const filled: [number, number][] = [];
  for (let bucket = 0; bucket < counts.length; bucket++) {
    if (counts[bucket]! > 0) filled.push([bucket, counts[bucket]!]);
  }
  return filled;
}

/** The duration that this part (0 to 1) of all stays within, in milliseconds; undefined for none. */
export function quantileMs(histogram: SparseHistogram, part: number): number | undefined {
  const total = histogram.reduce((sum, [, count]) => sum + count, 0);
  let left = Math.max(1, Math.ceil(total * part));
  for (const [bucket, count] of histogram) {
    left -= count;
    // The middle of the bucket, as its bounds are multiples of each other.
    if (left <= 0) return bucket === 0 ? 0 : Math.round(upperBoundMs(bucket - 0.5) * 100) / 100;
  }
  return undefined;
}
