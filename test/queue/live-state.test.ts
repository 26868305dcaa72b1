import assert from "node:assert/strict";
import { test } from "node:test";
import { DelayedJobs } from "../../src/queue/machine/delayed-jobs.ts";
import { RunningJobs } from "../../src/queue/machine/running-jobs.ts";
import { StoredBodies } from "../../src/queue/machine/stored-bodies.ts";
import { BodyFiles, placeOf } from "../../src/queue/sqlite/body-files.ts";
import { queueChanges } from "../../src/queue/sqlite/changes.ts";
import { QueueCore } from "../../src/queue/sqlite/core.ts";
import { delayedRows, runningRows } from "../../src/queue/sqlite/running.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue } from "./open-queue.ts";

test("workers and endpoints that are gone are not remembered", async (t) => {
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const files = new BodyFiles(under.blobDir, false);
  const clock = () => 1_700_000_000_000;
  const bounds = {
    queuedMax: 9,
    failedRetentionMs: 1,
    failedKeptMax: 9,
    streamKeptMax: 9,
    streamsKeptMax: 9,
    bodiesKeptMax: 9,
    expiredKeptMax: 9,
  };
  const core = new QueueCore(under.database, files, { clock, monotonic: clock }, bounds);
  const bodies = new StoredBodies(core, placeOf(core));
  const { enqueue } = queueChanges(core, bodies);
  const delays = new DelayedJobs(core.steady, delayedRows(core));
  const { claim, finish } = new RunningJobs(core, bodies, delays, runningRows(core));
  const stop = new AbortController();
  const waits = claim("without jobs", "w1", 1, stop.signal);
  for (const worker of ["dies", "lives"]) {
    await enqueue(newJob("e"));
    const [job] = await claim("e", worker, 1, stop.signal);
    await finish(job!, { state: "FAILED", error: "x" });
  }
  const again = claim("e", "lives", 1, stop.signal);
  core.live.forgetGone();
  assert.deepEqual([...core.live.endpoint("e").failing], ["lives"]);
  assert.deepEqual([...core.live.endpoints.keys()], ["without jobs", "e"]);
  stop.abort();
  await Promise.all([waits, again]);
  core.live.forgetGone();
  assert.deepEqual([...core.live.endpoint("e").failing], []);
  assert.deepEqual([...core.live.endpoints.keys()], ["e"]);
  core.close(new Error("closed"));
});
