/**
 * Jobs with side effects while workers and the platform are killed with SIGKILL at random, then every accepted id is looked
 * for. Not a race: the one figure that counts is `lost`.
 */
import { randomInt } from "node:crypto";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { chaos } from "../test/e2e/chaos.ts";
import { startPlatform } from "../test/e2e/platform.ts";
import { atMost, type Bench } from "./bench.ts";

const JOBS = 20_000;
const KILL_EVERY_MS = 1_000;
const WORKER_SHARE = 0.7;

export const bench: Bench = async () => {
  const cleanups: (() => unknown)[] = [];
  const context = { after: (cleanup: () => unknown) => void cleanups.unshift(cleanup) };
  try {
    const platform = await startPlatform(context as unknown as TestContext);
    const report = await chaos({
      platform,
      jobs: JOBS,
      killEveryMs: KILL_EVERY_MS,
      workerShare: WORKER_SHARE,
      project: (files) => {
        const dir = path.join(mkdtempSync(path.join(platform.dir, "project-")), "app");
        mkdirSync(dir);
        for (const [file, text] of Object.entries(files)) writeFileSync(path.join(dir, file), text);
        return dir;
      },
      random: () => randomInt(1_000_000) / 1_000_000,
    });
    for (const line of report.lost.slice(0, 20)) console.error(`lost: ${line}`);
    return {
      conditions: {
        jobs: `${JOBS}, each writes a line to a file and sleeps 2 ms; up to 4 workers`,
        kills: `SIGKILL about every ${KILL_EVERY_MS} ms: ${WORKER_SHARE * 100} % a worker, the others the platform`,
      },
      figures: {
        accepted: report.accepted,
        lost: report.lost.length,
        "repeated side effects": report.duplicates,
        "failed after two lost workers, completed by retry": report.failedFirst,
        "workers killed": report.workerKills,
        "platforms killed": report.platformKills,
        seconds: report.seconds,
      },
      bars: { "lost jobs": atMost(report.lost.length, 0) },
    };
  } finally {
    for (const cleanup of cleanups) await cleanup();
  }
};
