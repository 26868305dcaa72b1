import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { SvcError } from "../../src/domain/errors.ts";
import { runsyncJobId } from "../../src/domain/job.ts";
import { BOOT_BACKOFF_MS } from "../../src/domain/limits.ts";
import { BootRecord } from "../../src/workers/boot-record.ts";
import { BrokenCode } from "../../src/workers/broken-code.ts";
import { newJob } from "../conformance/queue.ts";
import { newEndpoint } from "../conformance/store.ts";
import { openTestQueue } from "../queue/open-queue.ts";

const cannotStart = new SvcError("BOOT_FAILED", "it cannot start");

/** The endpoint "e"; `serving` says whether workers of earlier code take its calls. */
async function open(t: TestContext, name: string) {
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const { queue } = under;
  const endpoint = newEndpoint(null, { id: "e", name, revision: "r" });
  const state = { now: 1_000, serving: false, requests: [] as string[] };
  const boots = new BootRecord(() => state.now);
  const broken = new BrokenCode({
    queue,
    boots,
    endpoints: { find: (id) => (id === "e" ? endpoint : undefined) },
    link: {
      failWaiting: async (_worker, error) => {
        state.requests.push(error.message);
      },
      sample: () => ({ workers: state.serving ? [{ ready: true }] : [] }),
    },
  });
  return { queue, broken, boots, state };
}

const WORKER = { id: "w", endpointId: "e", revision: "r" };

test("jobs of live code that cannot start fail with the reason", async (t) => {
  const { queue, broken } = await open(t, "live-hello");
  const { id } = await queue.enqueue(newJob("e"));
  await broken.tell({ ...WORKER, revision: "earlier" }, cannotStart);
  assert.equal((await queue.find(id))?.state, "IN_QUEUE", "newer code may do better");
  await broken.tell(WORKER, cannotStart);
  const job = await queue.find(id);
  assert.deepEqual([job?.state, JSON.parse(job!.error).error_message], ["FAILED", "it cannot start"]);
});

test("a job that comes after the code was mended never fails with the reason of the code before", async (t) => {
  const { queue, broken } = await open(t, "live-hello");
  const stop = new AbortController();
  await queue.enqueue(newJob("e"));
  const failing = broken.tell(WORKER, cannotStart);
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

test("While deployed code that failed to start is not tried again, callers are told at once; while earlier code serves, they wait", async (t) => {
  const { queue, broken, boots, state } = await open(t, "hello");
  const { id } = await queue.enqueue({ ...newJob("e"), id: runsyncJobId("1") });
  const waiting = queue.wait(id, 60_000);
  const { id: asynchronous } = await queue.enqueue(newJob("e"));
  await broken.callerWaits("e");
  boots.failed({ id: "e", revision: "r" }, "no module named numpy");
  state.serving = true;
  await broken.callerWaits("e");
  state.serving = false;
  state.now += BOOT_BACKOFF_MS;
  await broken.callerWaits("e");
  assert.deepEqual([(await queue.find(id))?.state, state.requests], ["IN_QUEUE", []], "it may start");
  boots.failed({ id: "e", revision: "r" }, "no module named numpy");
  await broken.callerWaits("e");
  assert.match((await waiting)!.error, /no module named numpy/);
  assert.deepEqual(state.requests, ["no module named numpy"]);
  assert.equal((await queue.find(asynchronous))?.state, "IN_QUEUE");
});
