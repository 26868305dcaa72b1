/** Schedules of replicas, network and database that a seed chooses (test/queue/simulation): 1,000 a round. */
import { trySchedules } from "../test/queue/simulation/schedules.ts";
import { atMost, type Bench } from "./bench.ts";

const SCHEDULES = 1_000;

export const bench: Bench = async ({ rounds }) => {
  const began = process.cpuUsage();
  let failed = 0;
  for (let round = 0; round < rounds; round++) {
    const found = await trySchedules(SCHEDULES);
    if (found === undefined) continue;
    failed++;
    process.stdout.write(`${found}\n`);
  }
  const { user, system } = process.cpuUsage(began);
  const schedules = rounds * SCHEDULES;
  return {
    conditions: { schedules: `${schedules}`, replicas: "3, and one more for each that is killed", shards: "3" },
    figures: { "processor time of a schedule, ms": (user + system) / 1_000 / schedules },
    bars: { "rounds that found something": atMost(failed, 0) },
  };
};
