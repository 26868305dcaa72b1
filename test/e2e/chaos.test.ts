import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { type TestContext, test } from "node:test";
import { type ChaosOptions, type ChaosReport, chaos } from "./chaos.ts";
import { project, startPlatform } from "./platform.ts";

async function run(t: TestContext, options: Pick<ChaosOptions, "jobs" | "workerShare">): Promise<ChaosReport> {
  const report = await chaos({
    ...options,
    platform: await startPlatform(t),
    killEveryMs: 500,
    project: (files) => project(t, files),
    random: () => randomInt(1_000_000) / 1_000_000,
  });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(report.lost, []);
  assert.equal(report.accepted, options.jobs);
  assert.ok(report.workerKills + report.platformKills > 0, "something was killed");
  return report;
}

test("no accepted job is lost while workers and the platform are killed at random", { timeout: 300_000 }, async (t) => {
  await run(t, { jobs: 1_200, workerShare: 0.7 });
});

test("a platform that is killed again and again runs no job twice: its workers hand over what they finished", {
  timeout: 300_000,
}, async (t) => {
  const { duplicates, failedFirst } = await run(t, { jobs: 600, workerShare: 0 });
  assert.deepEqual([duplicates, failedFirst], [0, 0]);
});
