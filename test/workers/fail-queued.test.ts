import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../src/domain/errors.ts";
import { failQueued } from "../../src/workers/live-endpoints.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue } from "../queue/open-queue.ts";

const cannotStart = new SvcError("BOOT_FAILED", "it cannot start");

test("jobs of code that cannot start fail with the reason", async (t) => {
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const { queue } = under;
  const { id } = await queue.enqueue(newJob("e"));
  await failQueued(queue, "e", "w", cannotStart);
  const job = await queue.find(id);
  assert.deepEqual([job?.state, JSON.parse(job!.error).error_message], ["FAILED", "it cannot start"]);
});

test("a job that comes after the code was mended never fails with the reason of the code before", async (t) => {
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const { queue } = under;
  const stop = new AbortController();
  await queue.enqueue(newJob("e"));
  const failing = failQueued(queue, "e", "broken", cannotStart);
  // A worker may take what waits in the same moment.
  await new Promise((resolve) => process.nextTick(resolve));
  const working = (async () => {
    for (;;) {
      const [job] = await queue.claim("e", "sound", 1, stop.signal);
      if (job === undefined) return;
      await queue.finish(job, { state: "COMPLETED", output: Buffer.from("1") });
    }
  })();
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  const later = await queue.enqueue(newJob("e"));
  assert.equal((await queue.wait(later.id, 60_000))?.state, "COMPLETED");
  stop.abort();
  await Promise.all([failing, working]);
});
