/**
 * The kill matrix: a part of the platform × what is done to it × what callers do meanwhile, each round drawn at random. Not a
 * race: what counts is that nothing is lost, finished twice, stuck or unanswered, and how soon the next result comes.
 */
import { randomInt } from "node:crypto";
import { allCells, killMatrix, randomCells } from "../test/campaign/kill-matrix.ts";
import { holdDocker } from "../test/docker.ts";
import { atMost, type Bench } from "./bench.ts";

const QUEUED = 20_000;
/** Longer than a lease. */
const FAULT_MS = 20_000;
const RECOVER_MAX_MS = 60_000;
const RECOVERY_P99_MS = 3_000;

export const bench: Bench = async ({ rounds }) => {
  const seed = Number(process.env.SVC_BENCH_SEED ?? randomInt(1_000_000));
  const faultMs = Number(process.env.SVC_BENCH_FAULT_MS ?? FAULT_MS);
  const queued = Number(process.env.SVC_BENCH_QUEUED ?? QUEUED);
  console.error(`seed ${seed}`);
  const place = await placeOf(process.env.SVC_BENCH_DRIVER ?? "process");
  const cells = randomCells(rounds, seed, place.driver);
  const times = { queued, faultMs, recoverMaxMs: RECOVER_MAX_MS };
  const report = await killMatrix({ ...place, seed, cells, ...times, say: console.error }).finally(place.release);
  const { broken, recoveryMs } = report;
  for (const line of Object.entries(broken).flatMap(([kind, all]) =>
    all.slice(0, 20).map((what) => `${kind}: ${what}`),
  )) {
    console.error(line);
  }
  const count = (kind: keyof typeof broken) => broken[kind].length;
  const p99 = percentile(recoveryMs, 0.99);
  return {
    conditions: {
      seed: `${seed} (SVC_BENCH_SEED plays it again)`,
      driver: `${place.driver} (SVC_BENCH_DRIVER=docker plays it with containers)`,
      rounds: `${report.rounds} of ${allCells(place.driver).length} cells, ${report.impossible.length} could not be done here`,
      faults: `${faultMs} ms each; after a step of the clock results may be gone, which test/e2e/clock-step.test.ts looks at`,
      queued: `${queued} jobs in rounds with a queue`,
    },
    figures: {
      "accepted jobs": report.accepted,
      "recovery p50, ms": percentile(recoveryMs, 0.5),
      "recovery p99, ms": p99,
    },
    bars: {
      "lost jobs": atMost(count("lost"), 0),
      "finished twice": atMost(count("doubled"), 0),
      stuck: atMost(count("stuck"), 0),
      unanswered: atMost(count("unanswered"), 0),
      "wrong answers": atMost(count("wrong"), 0),
      "recovery p99": atMost(p99, RECOVERY_P99_MS, " ms"),
    },
  };
};

async function placeOf(driver: string) {
  if (driver !== "docker") return { driver: "processes", env: {}, release: async () => {} } as const;
  const { docker, release } = await holdDocker();
  if (docker.skip !== false) throw new Error(docker.skip);
  return { driver: "containers", env: docker.env, release } as const;
}

function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}
