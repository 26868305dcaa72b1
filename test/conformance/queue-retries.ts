/** What every implementation of the queue must do with jobs that are tried again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { RETRY_DELAY_MAX_MS } from "../../src/domain/limits.ts";
import type { Again, Claim, ClaimedJob, DelayedJob, NewJob } from "../../src/queue/queue.ts";
import { type QueueUnderTest, type TestClock, unique } from "./queue.ts";

const HOUR = 3_600_000;
const AGAIN: Again = { max: 3, delayMs: HOUR, backoff: 2, maxDelayMs: 3 * HOUR };
const LONG = { ttlMs: 7 * 24 * HOUR };
const never = new AbortController().signal;

export function retries(
  under: () => QueueUnderTest,
  clock: TestClock,
  claimOne: (endpointId: string, workerId?: string) => Promise<ClaimedJob>,
  enqueued: (endpointId: string, changes?: Partial<NewJob>) => Promise<string>,
): void {
  const queue = () => under().queue;
  const raise = (claim: Claim, again: Again = AGAIN) =>
    queue().finish(claim, { state: "FAILED", error: "ValueError: no", again });
  async function seen(id: string) {
    const job = await queue().find(id);
    return job && [job.state, job.attempts, job.dueAt === null ? null : job.dueAt - clock.now];
  }

  test("what raised waits longer each time, then is FAILED as a dead letter; only that end owes a webhook", async () => {
    const e = unique("endpoint");
    const told: DelayedJob[] = [];
    queue().events.jobDelayed((job) => told.push(job));
    const id = await enqueued(e, { ...LONG, webhook: "https://receiver.test/hook" });
    const waited = queue().wait(id, 60_000);
    for (const [attempt, waitMs] of [HOUR, 2 * HOUR, 3 * HOUR].entries()) {
      const claim = await claimOne(e);
      assert.equal(claim.attempt, attempt + 1);
      assert.equal(await raise(claim), true);
      assert.equal(await raise(claim), false, "its fence is of no use any more");
      assert.deepEqual(await seen(id), ["IN_QUEUE", attempt + 1, waitMs]);
      const { inQueue, delayed, inProgress, oldestQueuedAt } = await queue().counts(e);
      assert.deepEqual([inQueue, delayed, inProgress, oldestQueuedAt], [0, 1, 0, null]);
      assert.deepEqual(told.at(-1), {
        id,
        endpointId: e,
        workerId: "w1",
        attempt: attempt + 1,
        of: 4,
        error: "ValueError: no",
        waitMs,
      });
      clock.now += waitMs - 1;
      assert.equal(await queue().wakeDelayed(), 0);
      clock.now += 1;
      assert.equal(await queue().wakeDelayed(), 1);
      assert.deepEqual(await queue().dueDeliveries(10, []), []);
    }
    await raise(await claimOne(e));
    assert.deepEqual(await seen(id), ["FAILED", 3, null]);
    assert.equal((await waited)?.state, "FAILED");
    const [delivery] = await queue().dueDeliveries(10, []);
    assert.equal(delivery?.jobId, id);
    await queue().settleDelivery(delivery!.id, null);
    assert.equal((await queue().counts(e)).failed, 1);
    assert.equal(await queue().retry(id), true);
    assert.deepEqual(await seen(id), ["IN_QUEUE", 0, null], "a retry by a caller has all its attempts again");
  });

  test("a wait survives a crash, is counted, listed and cancelled as one of the queue, and goes with a purge or its endpoint", async () => {
    const e = unique("endpoint");
    const ids = await Promise.all([1, 2, 3, 4].map(() => enqueued(e, { ...LONG, lowPriority: true })));
    for (const claim of await queue().claim(e, "w1", 4, never)) await raise(claim);
    await under().reopen();
    assert.equal((await queue().counts(e)).delayed, 4);
    const listed = await queue().list(e, { state: "IN_QUEUE", limit: 10 });
    assert.deepEqual(listed.map((job) => job.id).sort(), [...ids].sort());
    assert.equal((await queue().cancel(ids[0]!))?.state, "CANCELLED");
    clock.now += HOUR;
    assert.equal(await queue().wakeDelayed(), 3);
    const counts = await queue().counts(e);
    assert.deepEqual([counts.delayed, counts.inQueue, counts.inQueueLowPriority], [0, 3, 3]);
    const [claim] = await queue().claim(e, "w1", 1, never);
    assert.equal(claim?.attempt, 2);
    await raise(claim!);
    assert.equal(await queue().purge(e), 3);
    const last = await enqueued(e, LONG);
    await raise(await claimOne(e));
    await queue().forget(e);
    assert.equal(await queue().find(last), undefined);
    assert.equal((await queue().endpointIds()).includes(e), false);
  });

  test("a loss is counted apart from attempts, and no attempt begins past the job's ttl", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e, { ttlMs: 2 * HOUR });
    await queue().release(await claimOne(e), "lost");
    const second = await claimOne(e);
    assert.equal(second.attempt, 1);
    await raise(second);
    clock.now += HOUR;
    await queue().wakeDelayed();
    const third = await claimOne(e);
    assert.deepEqual([third.attempt, (await queue().find(id))?.retries], [2, 1]);
    await raise(third);
    assert.deepEqual(await seen(id), ["FAILED", 1, null]);
  });

  test("setting the clock neither hurries a wait nor holds it up, and a restart bounds what was set far back", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e, LONG);
    await raise(await claimOne(e));
    const step = -48 * HOUR;
    Object.assign(clock, { now: clock.now + step, stepped: (clock.stepped ?? 0) + step });
    clock.now += HOUR;
    assert.equal(await queue().wakeDelayed(), 1);
    await raise(await claimOne(e), { ...AGAIN, delayMs: HOUR / 2 });
    await under().reopen();
    clock.now += RETRY_DELAY_MAX_MS;
    assert.equal(await queue().wakeDelayed(), 1);
    assert.equal((await claimOne(e)).jobId, id);
    Object.assign(clock, { now: clock.now - step, stepped: clock.stepped! - step });
  });
}
