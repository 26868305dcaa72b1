/**
 * Three platforms on one database and one machine. Each has a part of the endpoints, or, with SVC_SHARE_SHARDS=0, one has all and two wait.
 * Not a race: what counts is that nothing is lost or finished twice, how long calls wait, and what more platforms cost. `--part NAME` runs
 * one part alone.
 */
import { availableParallelism } from "node:os";
import { lacksServers, Platforms } from "../test/campaign/platforms.ts";
import { STEADY_PROJECT } from "../test/campaign/steady-calls.ts";
import type { Bench, BenchResult } from "./bench.ts";
import { measureCost } from "./replicas-cost.ts";
import { tryFaults, tryHandOvers } from "./replicas-faults.ts";
import { measureMany } from "./replicas-many.ts";

const COUNT = 3;
const HOUR = "3600";
const PARTS = { faults: tryFaults, handover: tryHandOvers, cost: measureCost, many: measureMany };

export const bench: Bench = async ({ rounds, part }) => {
  const lack = await lacksServers();
  if (lack !== false) throw new Error(lack);
  const parts = Object.entries(PARTS).filter(([name]) => part === undefined || part === name);
  if (parts.length === 0) throw new Error(`There is no part "${part}", but ${Object.keys(PARTS).join(", ")}.`);
  const share = process.env.SVC_SHARE_SHARDS ?? "1";
  const env = {
    SVC_SHARE_SHARDS: share,
    SVC_RUN_RETENTION_S: HOUR,
    SVC_RUNSYNC_RETENTION_S: HOUR,
    SVC_RUNSYNC_WAIT_RETENTION_S: HOUR,
  };
  const onLogLine = process.env.SVC_BENCH_LOG
    ? (n: number, line: string) => console.error(`  ${performance.now().toFixed(0)} ${n} ${line}`)
    : () => {};
  const platforms = await Platforms.start({ count: COUNT, env, durable: true, onLogLine });
  try {
    const paths = await platforms.deploy(STEADY_PROJECT);
    const ownerOf = (name: string) => platforms.knownOwner(share === "0" ? undefined : paths[name]!.split("/").at(-1)!);
    const results: BenchResult[] = [];
    for (const [, measure] of parts) results.push(await measure({ platforms, paths, rounds, ownerOf }));
    const all = <T>(of: (result: BenchResult) => Record<string, T>) =>
      Object.assign({}, ...results.map(of)) as Record<string, T>;
    return {
      conditions: {
        platforms: `${COUNT} on one machine, ${availableParallelism()} processors, with PostgreSQL (synchronous_commit on) and S3`,
        endpoints: share === "0" ? "one platform has all, two wait" : "each platform has a part",
        ...all(({ conditions }) => conditions as Record<string, string>),
      },
      figures: all(({ figures }) => figures as Record<string, number>),
      bars: all(({ bars }) => bars),
    };
  } finally {
    await platforms.close();
  }
};
