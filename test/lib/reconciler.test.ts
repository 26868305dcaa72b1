import assert from "node:assert/strict";
import { test } from "node:test";
import { Reconciler } from "../../src/lib/reconciler.ts";

test("Work never runs twice at once; nudges that come meanwhile are one more run", async () => {
  const runs: PromiseWithResolvers<void>[] = [];
  const work = () => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  };
  const reconciler = new Reconciler("work", 60_000, work, () => {});
  for (const _ of [1, 2, 3]) reconciler.nudge();
  assert.equal(runs.length, 1);
  runs[0]!.resolve();
  while (runs.length < 2) await Promise.resolve();
  reconciler.nudge();
  const stopped = reconciler.stop();
  runs[1]!.resolve();
  await stopped;
  assert.equal(runs.length, 2);
});

test("Work that fails is told, and the next nudge runs it again", async () => {
  const errors: string[] = [];
  let runs = 0;
  const work = async () => {
    runs += 1;
    throw new Error(`run ${runs}`);
  };
  const reconciler = new Reconciler("work", 60_000, work, (name, error) =>
    errors.push(`${name}: ${(error as Error).message}`),
  );
  reconciler.nudge();
  await reconciler.stop();
  reconciler.nudge();
  await reconciler.stop();
  assert.deepEqual(errors, ["work: run 1", "work: run 2"]);
});
