/** Recorded shapes of load, made again from a seed. Times in seconds. */
export interface SimulatedJob {
  readonly arrival: number;
  readonly seconds: number;
  readonly lowPriority: boolean;
}

/** mulberry32: small, seeded, good enough for arrivals. */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

type Random = () => number;

const exponential = (random: Random, mean: number) => -Math.log(1 - random()) * mean;

/** Poisson arrivals at `rate(t)` per second. */
function arrivals(
  random: Random,
  until: number,
  rate: (t: number) => number,
  peak: number,
  seconds: () => number,
  low = 0,
) {
  const jobs: SimulatedJob[] = [];
  for (let t = exponential(random, 1 / peak); t < until; t += exponential(random, 1 / peak)) {
    if (random() < rate(t) / peak) jobs.push({ arrival: t, seconds: seconds(), lowPriority: random() < low });
  }
  return jobs;
}

export const SHAPES: Record<string, (random: Random) => SimulatedJob[]> = {
  "steady 4/s, 1 s": (random) =>
    arrivals(
      random,
      600,
      () => 4,
      4,
      () => exponential(random, 1),
    ),
  "burst 0 → 500": (random) =>
    Array.from({ length: 500 }, () => ({ arrival: 10, seconds: exponential(random, 1), lowPriority: false })),
  "saw-tooth 0 … 10/s": (random) =>
    arrivals(
      random,
      900,
      (t) => ((t % 180) / 180) * 10,
      10,
      () => exponential(random, 1),
    ),
  "long jobs, 60 s": (random) =>
    arrivals(
      random,
      1800,
      () => 0.1,
      0.1,
      () => exponential(random, 60),
    ),
  "mixed, half low priority": (random) =>
    arrivals(
      random,
      600,
      () => 4,
      4,
      () => exponential(random, 1),
      0.5,
    ),
};
