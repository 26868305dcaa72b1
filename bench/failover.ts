/**
 * The primary of the platform's PostgreSQL is killed under load and its synchronous standby promoted. Not a race: what counts is
 * that nothing is lost or finished twice, and how long calls have no results.
 */
import { failovers } from "../test/campaign/failovers.ts";
import { findPostgres } from "../test/postgres.ts";
import { atMost, type Bench } from "./bench.ts";

const QUEUED = 2_000;
const LOAD_MS = 2_000;
const RECOVER_MAX_MS = 120_000;

export const bench: Bench = async ({ rounds }) => {
  const found = await findPostgres();
  if ("missing" in found) throw new Error(found.missing);
  const times = { queued: QUEUED, loadMs: LOAD_MS, recoverMaxMs: RECOVER_MAX_MS };
  const { accepted, broken, pauseMs } = await failovers({ ...found, rounds, ...times, say: console.error });
  for (const [kind, all] of Object.entries(broken)) for (const what of all) console.error(`${kind}: ${what}`);
  const sorted = [...pauseMs].sort((a, b) => a - b);
  return {
    conditions: {
      rounds: `${rounds}; the standby is a new copy in each, streaming, and every commit waits for it`,
      load: `4 callers of /runsync, in every second round up to ${QUEUED} jobs by /run; ${LOAD_MS} ms before the kill`,
      pause:
        "from the kill of the primary until calls have results, of a worker that is there and of one that is started",
    },
    figures: {
      "accepted jobs": accepted,
      "pause p50, ms": sorted[Math.floor(sorted.length / 2)] ?? 0,
      "pause max, ms": sorted.at(-1) ?? 0,
    },
    bars: {
      "lost jobs": atMost(broken.lost.length, 0),
      "finished twice": atMost(broken.doubled.length, 0),
      stuck: atMost(broken.stuck.length, 0),
      unanswered: atMost(broken.unanswered.length, 0),
      "wrong answers": atMost(broken.wrong.length, 0),
    },
  };
};
