import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import {
  DELETE_BATCH_ROWS,
  INLINE_BODY_MAX_BYTES,
  STREAM_CHUNK_COST_BYTES,
  SWEEP_WINDOW_ROWS,
} from "../../src/domain/limits.ts";
import type { QueueBounds } from "../../src/queue/machine/machine.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue } from "./open-queue.ts";

const never = new AbortController().signal;

async function open(t: TestContext, bounds: Partial<QueueBounds>) {
  const clock = { now: 1_700_000_000_000 };
  const under = await openTestQueue(clock, "normal", bounds);
  t.after(() => under.close());
  const failed = async (endpointId: string, state: "FAILED" | "TIMED_OUT" = "FAILED") => {
    const { id } = await under.queue.enqueue(newJob(endpointId, { retentionMs: 1_000 }));
    const [claim] = await under.queue.claim(endpointId, "w", 1, never);
    await under.queue.finish(claim!, { state, error: "x" });
    return id;
  };
  const kept = async (ids: readonly string[]) => {
    const jobs = await Promise.all(ids.map((id) => under.queue.find(id)));
    return jobs.map((job) => job !== undefined);
  };
  return { under, clock, failed, kept };
}

test("of many failed jobs the newest stay; the others go when their own retention has passed, and are still counted", async (t) => {
  const { under, clock, failed, kept } = await open(t, { failedKeptMax: 2 });
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await failed("e"));
  const late = await failed("e", "TIMED_OUT");
  const other = await failed("other");
  await under.queue.sweep();
  assert.deepEqual(await kept(ids), [true, true, true, true], "their retention has not passed");
  clock.now += 1_000;
  assert.equal(await under.queue.sweep(), 2);
  assert.deepEqual(await kept([...ids, late, other]), [false, false, true, true, true, true]);
  assert.equal((await under.queue.counts("e")).failed, 5);
});

test("a failed job that was deleted for its number is found by the first sweep after a restart too", async (t) => {
  const { under, clock, failed, kept } = await open(t, { failedKeptMax: 1 });
  const ids = [await failed("e"), await failed("e")];
  clock.now += 1_000;
  await under.reopen();
  await under.queue.sweep();
  assert.deepEqual(await kept(ids), [false, true]);
});

test("of jobs whose results are gone the newest of each endpoint and state are known, in batches, also after a restart", async (t) => {
  const { under, clock, failed } = await open(t, { expiredKeptMax: 2, failedRetentionMs: 0 });
  const { queue } = under;
  const ids: string[] = [];
  for (let n = 0; n < DELETE_BATCH_ROWS + 3; n++) ids.push(await failed("e"));
  const others = [await failed("e", "TIMED_OUT"), await failed("other")];
  clock.now += 1_000;
  assert.equal(await queue.sweep(), ids.length + others.length);
  const known = async (of: readonly string[]) => {
    const jobs = await Promise.all(of.map((id) => under.queue.findExpired(id)));
    return jobs.flatMap((job) => (job === undefined ? [] : [job.id]));
  };
  assert.deepEqual(await known([...ids, ...others]), [...ids.slice(-2), ...others]);
  await under.reopen();
  assert.deepEqual(await known([...ids, ...others]), [...ids.slice(-2), ...others]);
  const next = await failed("e");
  const listed = await under.queue.list("e", { limit: 10, expired: true });
  assert.deepEqual(
    listed.map(({ id }) => id),
    [next, others[0], ...ids.slice(-2).reverse()],
    "numbers go on",
  );
  await under.queue.forget("e");
  assert.deepEqual(await known([...ids, ...others]), others.slice(1));
});

test("a full queue refuses further jobs, alone in their batch, until one is claimed", async (t) => {
  const { under } = await open(t, { queuedMax: 2 });
  const { queue } = under;
  const results = await Promise.allSettled(Array.from({ length: 4 }, () => queue.enqueue(newJob("e"))));
  assert.deepEqual(
    results.map((result) => (result.status === "rejected" ? result.reason.code : "accepted")),
    ["accepted", "accepted", "QUEUE_FULL", "QUEUE_FULL"],
  );
  assert.equal((await queue.counts("e")).inQueue, 2);
  await queue.claim("e", "w", 1, never);
  assert.equal((await queue.enqueue(newJob("e"))).created, true);
  await assert.rejects(queue.enqueue(newJob("e", { idempotencyKey: "k" })), { code: "QUEUE_FULL" });
});

test("a job whose chunks are more than are kept fails, naming the limit; its worker is told, what it had yielded stays", async (t) => {
  const cost = (bytes: number) => bytes + STREAM_CHUNK_COST_BYTES;
  const { under } = await open(t, { streamKeptMax: 2 * cost(1000), streamsKeptMax: 5 * cost(1000) });
  const { queue } = under;
  const told: unknown[] = [];
  queue.events.jobCancelled((claim) => told.push(claim));
  const running = async () => {
    const { id } = await queue.enqueue(newJob("e"));
    const [claim] = await queue.claim("e", "w", 1, never);
    const chunk = () => queue.chunk(claim!, Buffer.alloc(1000, "1"));
    return { id, claim: claim!, chunk };
  };
  const taken = await running();
  for (let n = 0; n < 4; n++) {
    await taken.chunk();
    await queue.takeChunks(taken.id, 0);
  }
  assert.equal((await queue.find(taken.id))?.state, "IN_PROGRESS", "what was taken does not count");
  // All at once, as they come in one read: those on their way count too.
  const greedy = await running();
  await Promise.all(Array.from({ length: 6 }, greedy.chunk));
  const failed = await queue.find(greedy.id);
  assert.equal(failed?.state, "FAILED");
  assert.match(failed.error, /stream is too large: more than 2256 bytes .*STREAM_KEPT_MAX_BYTES/);
  assert.deepEqual(told, [{ jobId: greedy.id, fence: greedy.claim.fence, workerId: "w" }]);
  await greedy.chunk();
  assert.equal((await queue.readChunks(greedy.id, 0, 0))?.chunks.length, 2);
  // Others of the endpoint add to it, until it is too much for all of them together; a restart forgets nothing.
  const second = await running();
  await second.chunk();
  await second.chunk();
  await under.reopen();
  await under.queue.chunk(taken.claim, Buffer.alloc(1000, "1"));
  await under.queue.chunk(taken.claim, Buffer.alloc(1000, "1"));
  assert.match((await under.queue.find(taken.id))!.error, /streams of this endpoint's jobs .*STREAMS_KEPT_MAX_BYTES/);
  await under.queue.takeChunks(greedy.id, 0);
  await under.queue.retry(taken.id);
  const [again] = await under.queue.claim("e", "w", 1, never);
  await under.queue.chunk(again!, Buffer.alloc(1000, "1"));
  await under.queue.chunk(again!, Buffer.alloc(1000, "1"));
  assert.equal((await under.queue.find(taken.id))?.state, "IN_PROGRESS", "there is room again");
});

test("a result whose retention has passed goes though more than one step's worth of older ones stays", async (t) => {
  const { under, clock, kept } = await open(t, {});
  const finishAll = async (ids: readonly string[]) => {
    const claims = await under.queue.claim("e", "w", ids.length, never);
    await Promise.all(
      claims.map((claim) => under.queue.finish(claim, { state: "COMPLETED", output: Buffer.from("1") })),
    );
  };
  const accept = async (retentionMs: number, count: number) => {
    const jobs = Array.from({ length: count }, () => under.queue.enqueue(newJob("e", { retentionMs })));
    return (await Promise.all(jobs)).map(({ id }) => id);
  };
  const long = await accept(60_000, SWEEP_WINDOW_ROWS + 10);
  const short = await accept(1_000, 3);
  await finishAll([...long, ...short]);
  clock.now += 1_000;
  assert.equal(await under.queue.sweep(), 3);
  assert.deepEqual(await kept([long[0]!, long.at(-1)!, ...short]), [true, true, false, false, false]);
  clock.now += 59_000;
  assert.equal(await under.queue.sweep(), long.length);
});

const FILE = INLINE_BODY_MAX_BYTES + 1;
const large = (fill: string) => Buffer.alloc(FILE, fill);

test("files of an endpoint's jobs are bounded together: a new job whose input does not fit is refused, others are not touched", async (t) => {
  const { under, clock } = await open(t, { bodiesKeptMax: 2 * FILE });
  const { queue } = under;
  const first = await queue.enqueue(newJob("e", { input: large("1"), idempotencyKey: "k", retentionMs: 1_000 }));
  // At once: those that are being written count too.
  const together = await Promise.allSettled(
    ["2", "3", "4"].map((fill) => queue.enqueue(newJob("e", { input: large(fill), retentionMs: 1_000 }))),
  );
  assert.deepEqual(together.map((result) => (result.status === "rejected" ? result.reason.code : "accepted")).sort(), [
    "BODIES_FULL",
    "BODIES_FULL",
    "accepted",
  ]);
  await assert.rejects(queue.enqueue(newJob("e", { input: large("5") })), { message: /at most 131074 bytes/ });
  const again = newJob("e", { input: large("6"), idempotencyKey: "k" });
  assert.deepEqual(await queue.enqueue(again), { id: first.id, created: false });
  await queue.enqueue(newJob("e"));
  await queue.enqueue(newJob("other", { input: large("7") }));

  await under.reopen();
  await assert.rejects(under.queue.enqueue(newJob("e", { input: large("8") })), { code: "BODIES_FULL" });
  for (const claim of await under.queue.claim("e", "w", 2, never)) {
    await under.queue.finish(claim, { state: "COMPLETED", output: Buffer.from("1") });
  }
  clock.now += 1_000;
  await under.queue.sweep();
  assert.equal((await under.queue.enqueue(newJob("e", { input: large("9") }))).created, true, "its file is gone");
});

test("a result that does not fit into the files of its endpoint fails its job, naming the limit", async (t) => {
  const { under } = await open(t, { bodiesKeptMax: 2 * FILE });
  const { queue } = under;
  const running = async () => {
    const { id } = await queue.enqueue(newJob("e"));
    const [claim] = await queue.claim("e", "w", 1, never);
    return { id, claim: claim! };
  };
  const done = await running();
  await queue.finish(done.claim, { state: "COMPLETED", output: large("1") });
  const told = await running();
  await queue.progress(told.claim, large("2"));
  await queue.progress(told.claim, large("3"));
  assert.ok(large("2").equals((await queue.find(told.id))!.output!), "an update that does not fit is left out");

  const waits = queue.wait(told.id, 60_000);
  assert.equal(await queue.finish(told.claim, { state: "COMPLETED", output: large("4") }), true);
  for (const job of [await waits, await queue.find(told.id)]) {
    assert.deepEqual([job?.state, job?.output], ["FAILED", null]);
    assert.match(job!.error, /the job's result cannot be kept\..* at most 131074 bytes .*SVC_BODIES_LIMIT_MB/);
  }
  const raised = await running();
  await queue.finish(raised.claim, { state: "FAILED", error: "x".repeat(FILE) });
  assert.equal((await queue.find(raised.id))?.error, "x".repeat(FILE), "the update of before has given its room back");
  const late = await running();
  await queue.finish(late.claim, { state: "FAILED", error: "y".repeat(FILE) });
  assert.match((await queue.find(late.id))!.error, /SVC_BODIES_LIMIT_MB/);
  await queue.retry(raised.id);
  const [again] = await queue.claim("e", "w", 1, never);
  await queue.finish(again!, { state: "COMPLETED", output: large("5") });
  assert.equal((await queue.find(raised.id))?.state, "COMPLETED", "a retry has given the room of its error back");
  await queue.forget("e");
  await queue.enqueue(newJob("e", { input: large("6") }));
  await queue.enqueue(newJob("e", { input: large("7") }));
});
