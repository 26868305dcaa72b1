/** `--rounds N` minutes of mixed calls: memory, descriptors and the rows of tables must be flat. */
import { soak } from "../test/campaign/soak.ts";
import { atMost, type Bench } from "./bench.ts";

/** What is noise: the larger of the two. */
const RSS_NOISE_PART = 0.1;
const RSS_NOISE_MB = 10;
const DESCRIPTORS_NOISE = 20;
/** A slow second keeps fewer jobs than a quick one. */
const ROWS_NOISE_PART = 0.5;
const ROWS_NOISE = 100;
/** Finished jobs are kept for a minute: before the second quarter of so many minutes, the number of rows rises by design. */
const ROWS_FLAT_AFTER_MINUTES = 5;

export const bench: Bench = async ({ rounds }) => {
  const { done, failed, growth, tables } = await soak(rounds * 60);
  for (const line of failed.slice(0, 20)) console.error(line);
  const bars = Object.entries(growth).flatMap(([name, { rssMb, descriptors }]) => {
    const noise = Math.max(RSS_NOISE_MB, Math.round(rssMb[0] * RSS_NOISE_PART));
    return [
      [`${name}: RSS grows by`, atMost(rssMb[1] - rssMb[0], noise, " MB")],
      [`${name}: descriptors grow by`, atMost(descriptors[1] - descriptors[0], DESCRIPTORS_NOISE)],
    ] as const;
  });
  const rows = Object.entries(tables).map(
    ([name, [early, late]]) =>
      [
        `${name}: rows grow by`,
        atMost(late - early, Math.max(ROWS_NOISE, Math.round(early * ROWS_NOISE_PART))),
      ] as const,
  );
  for (const [name, [early, late]] of Object.entries(tables)) console.error(`${name}: ${early} → ${late} rows`);
  return {
    conditions: { load: `${rounds} minutes of runsync, load-balanced and WebSocket calls, 2 callers of each kind` },
    figures: done,
    bars: {
      "failed calls": atMost(failed.length, 0),
      ...Object.fromEntries(bars),
      ...(rounds >= ROWS_FLAT_AFTER_MINUTES ? Object.fromEntries(rows) : {}),
    },
  };
};
