/** What every implementation of the queue must do. The clock is the test's; everything else is real. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { runsyncJobId } from "../../src/domain/job.ts";
import {
  EXPIRED_KEPT_MS,
  FAILED_RETENTION_MS,
  INLINE_BODY_MAX_BYTES,
  LEASE_MS,
  PREFETCH_MAX_BYTES,
  STREAM_ANSWER_MAX_BYTES,
  WEBHOOK_WINDOW_HOSTS,
  WEBHOOK_WINDOW_ROWS,
} from "../../src/domain/limits.ts";
import type { ClaimedJob, JobQueue, NewJob } from "../../src/queue/queue.ts";
import { retries } from "./queue-retries.ts";

export interface TestClock {
  /** Milliseconds since the epoch. */
  now: number;
  /** By so much of it the clock was set; the rest has passed. */
  stepped?: number;
}

export interface QueueUnderTest {
  queue: JobQueue;
  readonly clock: TestClock;
  /** Ends the queue as a crash would, between two commits, and opens it again on the same data. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

const START = 1_700_000_000_000;
let names = 0;
/** An endpoint or job id that no other test uses. */
export function unique(prefix: string): string {
  names += 1;
  return `${prefix}-${names}`;
}

export function newJob(endpointId: string, changes: Partial<NewJob> = {}): NewJob {
  return {
    id: unique("job"),
    endpointId,
    input: Buffer.from('{"input":{"n":1}}'),
    method: "",
    webhook: "",
    idempotencyKey: "",
    lowPriority: false,
    executionTimeoutMs: 60_000,
    ttlMs: 3_600_000,
    retentionMs: 60_000,
    ...changes,
  };
}

const OUTPUT = Buffer.from('{"ok":true}');
const never = new AbortController().signal;
const text = (bytes: Uint8Array | null | undefined) => (bytes == null ? bytes : Buffer.from(bytes).toString("utf8"));
const large = (fill: string) => Buffer.from(JSON.stringify({ fill: fill.repeat(INLINE_BODY_MAX_BYTES) }));

export function queueConformance(name: string, open: (clock: TestClock) => Promise<QueueUnderTest>): void {
  describe(`${name}: the job queue`, () => {
    let under: QueueUnderTest;
    const clock: TestClock = { now: START };
    const queue = () => under.queue;
    before(async () => {
      under = await open(clock);
    });
    after(() => under.close());

    async function claimOne(endpointId: string, workerId = "w1"): Promise<ClaimedJob> {
      const [job, ...more] = await queue().claim(endpointId, workerId, 1, never);
      assert.ok(job !== undefined && more.length === 0);
      return job;
    }
    async function enqueued(endpointId: string, changes: Partial<NewJob> = {}): Promise<string> {
      return (await queue().enqueue(newJob(endpointId, changes))).id;
    }
    async function stateOf(id: string) {
      return (await queue().find(id))?.state;
    }

    handOut(queue, clock, claimOne, enqueued, stateOf);
    results(queue, clock, claimOne, enqueued, stateOf);
    takingBack(queue, clock, claimOne, enqueued, stateOf);
    looking(queue, clock, claimOne, enqueued);
    streams(() => under, claimOne, enqueued);
    outbox(() => under, clock, claimOne, enqueued, stateOf);
    retries(() => under, clock, claimOne, enqueued);
    upkeep(() => under, clock, claimOne, enqueued, stateOf);
  });
}

type Queue = () => JobQueue;
type ClaimOne = (endpointId: string, workerId?: string) => Promise<ClaimedJob>;
type Enqueued = (endpointId: string, changes?: Partial<NewJob>) => Promise<string>;
type StateOf = (id: string) => Promise<string | undefined>;
type Clock = TestClock;

function handOut(queue: Queue, clock: Clock, claimOne: ClaimOne, enqueued: Enqueued, stateOf: StateOf): void {
  test("a job keeps its input's bytes, its method and its time-out until a worker gets it", async () => {
    const e = unique("endpoint");
    const input = Buffer.from('{ "n": 1.0, "ü": "☃" }');
    const id = await enqueued(e, { input, method: "train", executionTimeoutMs: 12_345 });
    clock.now += 250;
    const job = await claimOne(e);
    assert.deepEqual(
      { ...job, input: text(job.input) },
      {
        jobId: id,
        fence: job.fence,
        endpointId: e,
        input: text(input),
        method: "train",
        executionTimeoutMs: 12_345,
        delayMs: 250,
        attempt: 1,
      },
    );
    assert.equal(text(await queue().input(id)), text(input));
  });

  test("jobs are handed out oldest first, low priority after all others", async () => {
    const e = unique("endpoint");
    const low = await enqueued(e, { lowPriority: true });
    const first = await enqueued(e);
    const second = await enqueued(e);
    const jobs = await queue().claim(e, "w1", 10, never);
    assert.deepEqual(
      jobs.map((job) => job.jobId),
      [first, second, low],
    );
  });

  test("a claim takes at most as many jobs as it asks for, and only of its endpoint", async () => {
    const e = unique("endpoint");
    await enqueued(unique("endpoint"));
    for (let i = 0; i < 3; i++) await enqueued(e);
    assert.equal((await queue().claim(e, "w1", 2, never)).length, 2);
    assert.equal((await queue().counts(e)).inQueue, 1);
  });

  test("a claim takes no more jobs once their inputs are large together; the others stay for other workers", async () => {
    const endpointId = unique("endpoint");
    const input = Buffer.alloc(Math.ceil(PREFETCH_MAX_BYTES / 2), "x");
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push(await enqueued(endpointId, { input }));
    const took = async (workerId: string) =>
      (await queue().claim(endpointId, workerId, 100, never)).map(({ jobId }) => jobId);
    assert.deepEqual(await took("w1"), ids.slice(0, 2));
    assert.deepEqual(await took("w2"), ids.slice(2, 4));
    assert.deepEqual(await took("w2"), ids.slice(4));
  });

  test("a claim that waits gets the job the moment it is accepted", async () => {
    const e = unique("endpoint");
    const claim = queue().claim(e, "w1", 1, never);
    const id = await enqueued(e);
    const [job] = await claim;
    assert.equal(job?.jobId, id);
    assert.equal((await queue().find(id))?.workerId, "w1");
  });

  test("jobs that arrive together are spread over the waiting workers", async () => {
    const e = unique("endpoint");
    const claims = [queue().claim(e, "w1", 2, never), queue().claim(e, "w2", 2, never)];
    await Promise.all([enqueued(e), enqueued(e)]);
    assert.deepEqual(
      (await Promise.all(claims)).map((jobs) => jobs.length),
      [1, 1],
    );
  });

  /** Who gets so many jobs, one after the other. Each worker claims again as soon as it is free, as the platform does. */
  async function servedInTurn(
    workers: readonly string[],
    jobs: number,
    fails: (worker: string, nth: number) => boolean,
  ): Promise<string[]> {
    const e = unique("endpoint");
    const stop = new AbortController();
    const served: string[] = [];
    const working = workers.map(async (worker) => {
      for (;;) {
        const [job] = await queue().claim(e, worker, 1, stop.signal);
        if (job === undefined) return;
        const failed = fails(worker, served.push(worker));
        await queue().finish(job, failed ? { state: "FAILED", error: "no" } : { state: "COMPLETED", output: OUTPUT });
      }
    });
    for (let i = 0; i < jobs; i++) await queue().wait(await enqueued(e), 60_000);
    stop.abort();
    await Promise.all(working);
    return served;
  }

  test("jobs one after the other stay with one worker, so that the others become idle", async () => {
    assert.deepEqual(await servedInTurn(["w1", "w2", "w3"], 6, () => false), Array(6).fill("w3"));
  });

  test("a worker that fails does not draw the jobs to itself", async () => {
    const workers = ["broken", "broken too", "sound"];
    const served = await servedInTurn(workers, 8, (worker, nth) => worker !== "sound" || nth === 1);
    // Its own failure costs the sound one its turn once.
    assert.deepEqual(served, ["sound", "broken too", "broken", ...Array(5).fill("sound")]);
  });

  test("an idle worker is served before a busy one gets a job ahead", async () => {
    const e = unique("endpoint");
    const idle = queue().claim(e, "w1", 1, never);
    const busy = queue().claim(e, "w2", 1, never);
    await enqueued(e);
    assert.equal((await busy).length, 1);
    const ahead = queue().claim(e, "w2", 1, never);
    const [second, third] = [await enqueued(e), await enqueued(e)];
    assert.deepEqual([(await idle)[0]?.jobId, (await ahead)[0]?.jobId], [second, third]);
  });

  test("a large input reaches the worker unchanged, whether a worker waits for it or not", async () => {
    const e = unique("endpoint");
    const [first, second] = [large("a"), large("b")];
    const waiting = queue().claim(e, "w1", 1, never);
    await enqueued(e, { input: first });
    assert.ok(first.equals((await waiting)[0]!.input));
    const id = await enqueued(e, { input: second });
    assert.ok(second.equals((await claimOne(e)).input));
    assert.ok(second.equals((await queue().input(id))!));
  });

  test("an aborted claim resolves empty and takes no job", async () => {
    const e = unique("endpoint");
    const stop = new AbortController();
    const claim = queue().claim(e, "w1", 1, stop.signal);
    stop.abort();
    assert.deepEqual(await claim, []);
    assert.deepEqual(await queue().claim(e, "w1", 1, stop.signal), []);
    assert.equal(await stateOf(await enqueued(e)), "IN_QUEUE");
  });

  test("a second job with the same idempotency key is not made", async () => {
    const e = unique("endpoint");
    const first = newJob(e, { idempotencyKey: "k" });
    assert.deepEqual(await queue().enqueue(first), { id: first.id, created: true });
    const both = await Promise.all([
      queue().enqueue(newJob(e, { idempotencyKey: "k" })),
      queue().enqueue(newJob(e, { idempotencyKey: "other" })),
    ]);
    assert.deepEqual(both[0], { id: first.id, created: false });
    assert.equal(both[1]!.created, true);
    assert.equal((await queue().counts(e)).inQueue, 2);
    assert.equal((await queue().enqueue(newJob(unique("endpoint"), { idempotencyKey: "k" }))).created, true);
  });

  test("one job that cannot be stored fails alone", async () => {
    const e = unique("endpoint");
    const job = newJob(e);
    await queue().enqueue(job);
    const [again, other] = await Promise.allSettled([queue().enqueue(job), queue().enqueue(newJob(e))]);
    assert.equal(again.status, "rejected");
    assert.equal(other.status, "fulfilled");
    assert.equal((await queue().counts(e)).inQueue, 2);
  });
}

function results(queue: Queue, clock: Clock, claimOne: ClaimOne, enqueued: Enqueued, stateOf: StateOf): void {
  test("a result is stored with its times and ends the job", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e, { webhook: "https://example.test/hook" });
    const createdAt = clock.now;
    clock.now += 10;
    const claim = await claimOne(e);
    clock.now += 20;
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), true);
    const job = await queue().find(id);
    assert.deepEqual(
      { ...job, output: text(job?.output) },
      {
        id,
        endpointId: e,
        state: "COMPLETED",
        method: "",
        webhook: "https://example.test/hook",
        lowPriority: false,
        output: text(OUTPUT),
        error: "",
        workerId: "w1",
        retries: 0,
        attempts: 0,
        dueAt: null,
        createdAt,
        startedAt: createdAt + 10,
        finishedAt: createdAt + 30,
        executionTimeoutMs: 60_000,
      },
    );
  });

  test("a failure keeps its error, and its output when there is one", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    await queue().finish(await claimOne(e), { state: "FAILED", error: "böse", output: OUTPUT });
    const job = await queue().find(id);
    assert.deepEqual([job?.state, job?.error, text(job?.output)], ["FAILED", "böse", text(OUTPUT)]);
  });

  test("a job that took too long is TIMED_OUT", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    await queue().finish(await claimOne(e), { state: "TIMED_OUT", error: "too long" });
    const job = await queue().find(id);
    assert.deepEqual([job?.state, job?.error, job?.output], ["TIMED_OUT", "too long", null]);
  });

  test("bytes of a large input that were let go of, or given to one worker, are read again for the next", async () => {
    const e = unique("e");
    const given = large("a");
    const { letGo } = await queue().enqueue(newJob(e, { input: given }));
    if (letGo) given.fill(0);
    for (const workerId of ["w1", "w2"]) {
      const job = await claimOne(e, workerId);
      assert.ok(large("a").equals(job.input));
      if (job.isInputOwn) job.input.fill(0);
      await queue().release(job, "handed-back");
    }
  });

  test("a large input that is its job's own is given back by the worker that waited for it, and read again for the next", async () => {
    const e = unique("e");
    const waiting = claimOne(e, "w1");
    await queue().enqueue(newJob(e, { input: large("o"), isInputOwn: true }));
    const job = await waiting;
    assert.ok(large("o").equals(job.input));
    if (job.isInputOwn) job.input.fill(0);
    await queue().release(job, "handed-back");
    assert.ok(large("o").equals((await claimOne(e, "w2")).input));
  });

  test("a large output is its reader's own when no other waits for the job", async () => {
    for (const readers of [1, 2]) {
      const e = unique("e");
      const id = await enqueued(e);
      const claim = await claimOne(e);
      const waiting = Array.from({ length: readers }, () => queue().wait(id, 10_000));
      await queue().finish(claim, { state: "COMPLETED", output: large("o") });
      for (const job of await Promise.all(waiting)) {
        assert.ok(large("o").equals(job!.output!));
        if (job!.isOutputOwn) job!.output!.fill(0);
      }
      assert.ok(large("o").equals((await queue().find(id))!.output!));
    }
  });

  test("large outputs and large errors come back unchanged", async () => {
    const e = unique("endpoint");
    const [ok, bad] = [await enqueued(e), await enqueued(e)];
    const error = "é".repeat(INLINE_BODY_MAX_BYTES);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: large("x") });
    await queue().finish(await claimOne(e), { state: "FAILED", error, output: large("y") });
    assert.ok(large("x").equals((await queue().find(ok))!.output!));
    const failed = await queue().find(bad);
    assert.ok(large("y").equals(failed!.output!));
    assert.ok(failed?.error === error);
  });

  test("a large output is left out, with its size, for who asks for none: a short one comes all the same", async () => {
    const e = unique("endpoint");
    const [long, short] = [await enqueued(e), await enqueued(e)];
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: large("x") });
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    const bytes = large("x").byteLength;
    for (const [most, leftOutBytes] of [
      [0, bytes],
      [bytes - 1, bytes],
      [bytes, undefined],
      [undefined, undefined],
    ]) {
      const { output, ...job } = (await queue().find(long, most))!;
      assert.deepEqual(
        [output?.byteLength, job.leftOutBytes, job.state],
        [leftOutBytes ? undefined : bytes, leftOutBytes, "COMPLETED"],
      );
    }
    const job = (await queue().find(short, 0))!;
    assert.deepEqual([text(job.output!), job.leftOutBytes], [text(OUTPUT), undefined]);
  });

  test("only the first result of a claim counts", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const both = await Promise.all([
      queue().finish(claim, { state: "COMPLETED", output: OUTPUT }),
      queue().finish(claim, { state: "FAILED", error: "late" }),
    ]);
    assert.deepEqual(both, [true, false]);
    assert.equal(await stateOf(id), "COMPLETED");
  });

  test("a result without its fencing token changes nothing", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const wrong = { jobId: id, fence: claim.fence + 1 };
    assert.equal(await queue().finish(wrong, { state: "COMPLETED", output: OUTPUT }), false);
    assert.equal(await queue().finish({ jobId: "unknown", fence: 1 }, { state: "COMPLETED", output: OUTPUT }), false);
    assert.equal(await stateOf(id), "IN_PROGRESS");
  });

  test("who waits for a job gets it the moment its result is stored", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const waiting = queue().wait(id, 60_000);
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    const job = await waiting;
    assert.deepEqual(job && { ...job, output: text(job.output) }, {
      ...(await queue().find(id)),
      output: text(OUTPUT),
    });
    assert.equal((await queue().wait(id, 60_000))?.state, "COMPLETED");
  });

  test("who waits longer than the wait gets the job as it is", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    assert.equal((await queue().wait(id, 1))?.state, "IN_QUEUE");
    const stop = new AbortController();
    const waiting = queue().wait(id, 60_000, stop.signal);
    stop.abort();
    assert.equal((await waiting)?.state, "IN_QUEUE");
    assert.equal(await queue().wait("unknown", 60_000), undefined);
  });

  test("the end of a job is announced with its webhook, its worker and its times", async () => {
    const e = unique("endpoint");
    const heard: unknown[] = [];
    queue().events.jobFinished((job) => {
      if (job.endpointId === e) heard.push(job);
    });
    const id = await enqueued(e, { webhook: "https://example.test/done" });
    const createdAt = clock.now;
    clock.now += 20;
    const claim = await claimOne(e, "w7");
    const startedAt = clock.now;
    clock.now += 30;
    await queue().finish(claim, { state: "FAILED", error: "x" });
    const times = { workerId: "w7", createdAt, startedAt, finishedAt: startedAt + 30 };
    assert.deepEqual(heard, [{ id, endpointId: e, state: "FAILED", webhook: "https://example.test/done", ...times }]);
    await queue().cancel(await enqueued(e));
    assert.deepEqual((heard[1] as { startedAt: unknown }).startedAt, null);
  });

  test("a job that no claim takes is announced", async () => {
    const e = unique("endpoint");
    const heard: string[] = [];
    queue().events.jobQueued((endpointId) => heard.push(endpointId));
    await enqueued(e);
    assert.ok(heard.includes(e));
    const taken = unique("endpoint");
    const claim = queue().claim(taken, "w1", 1, never);
    await enqueued(taken);
    await claim;
    assert.ok(!heard.includes(taken));
  });
}

function takingBack(queue: Queue, clock: Clock, claimOne: ClaimOne, enqueued: Enqueued, stateOf: StateOf): void {
  test("a job handed back waits again as it was, before younger ones", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const first = await claimOne(e);
    await enqueued(e);
    await queue().release(first, "handed-back");
    const job = await queue().find(id);
    assert.deepEqual([job?.state, job?.retries, job?.workerId, job?.startedAt], ["IN_QUEUE", 0, "", null]);
    const second = await claimOne(e, "w2");
    assert.equal(second.jobId, id);
    assert.ok(second.fence > first.fence);
    assert.equal(await queue().finish(first, { state: "COMPLETED", output: OUTPUT }), false);
    assert.equal(await queue().finish(second, { state: "COMPLETED", output: OUTPUT }), true);
  });

  test("a lost job is handed out once more, then it fails", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    await queue().release(await claimOne(e), "lost");
    assert.deepEqual([await stateOf(id), (await queue().find(id))?.retries], ["IN_QUEUE", 1]);
    await queue().release(await claimOne(e), "lost");
    const job = await queue().find(id);
    assert.deepEqual([job?.state, job?.error, job?.retries], ["FAILED", "worker lost after 1 retry", 1]);
    const counts = await queue().counts(e);
    assert.deepEqual([counts.failed, counts.retried, counts.inProgress, counts.inQueue], [1, 1, 0, 0]);
  });

  test("a lost job goes straight to a waiting worker", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const first = await claimOne(e);
    const waiting = queue().claim(e, "w2", 1, never);
    await queue().release(first, "lost");
    assert.equal((await waiting)[0]?.jobId, id);
  });

  test("releasing a claim that is no longer valid changes nothing", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    await queue().release(claim, "lost");
    assert.equal(await stateOf(id), "COMPLETED");
  });

  test("a queued job is cancelled at once", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    assert.equal((await queue().cancel(id))?.state, "CANCELLED");
    const counts = await queue().counts(e);
    assert.deepEqual([counts.inQueue, counts.inProgress, counts.oldestQueuedAt], [0, 0, null]);
    assert.equal(await queue().cancel("unknown"), undefined);
  });

  test("cancelling a running job tells its worker, and its late result is refused", async () => {
    const e = unique("endpoint");
    const heard: unknown[] = [];
    queue().events.jobCancelled((claim) => heard.push(claim));
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const waiting = queue().wait(id, 60_000);
    assert.equal((await queue().cancel(id))?.state, "CANCELLED");
    assert.equal((await waiting)?.state, "CANCELLED");
    assert.deepEqual(heard.at(-1), { jobId: id, fence: claim.fence, workerId: "w1" });
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), false);
    assert.equal(await stateOf(id), "CANCELLED");
  });

  test("cancelling a final job leaves it as it is", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    assert.equal((await queue().cancel(id))?.state, "COMPLETED");
  });

  test("a failed or timed-out job can be retried with its id and input, any other cannot", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    assert.equal(await queue().retry(id), false);
    const first = await claimOne(e);
    assert.equal(await queue().retry(id), false);
    await queue().finish(first, { state: "FAILED", error: "x" });
    clock.now += 1000;
    assert.equal(await queue().retry(id), true);
    const waiting = await queue().find(id);
    assert.deepEqual([waiting?.state, waiting?.error, waiting?.createdAt], ["IN_QUEUE", "", clock.now]);
    const second = await claimOne(e);
    assert.equal(text(second.input), text(first.input));
    assert.ok(second.fence > first.fence);
    await queue().finish(second, { state: "TIMED_OUT", error: "x" });
    assert.equal(await queue().retry(id), true);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    assert.equal(await queue().retry(id), false);
    const counts = await queue().counts(e);
    assert.deepEqual([counts.completed, counts.failed, counts.retried], [1, 0, 2]);
  });

  test("purging deletes the queued jobs of the endpoint and nothing else", async () => {
    const e = unique("endpoint");
    const other = await enqueued(unique("endpoint"));
    await enqueued(e);
    const running = await claimOne(e);
    const waiting = [await enqueued(e), await enqueued(e, { lowPriority: true })];
    const waiter = queue().wait(waiting[0]!, 60_000);
    assert.equal(await queue().purge(e), 2);
    assert.equal(await waiter, undefined);
    assert.equal(await queue().find(waiting[1]!), undefined);
    assert.equal(await stateOf(running.jobId), "IN_PROGRESS");
    assert.equal(await stateOf(other), "IN_QUEUE");
    assert.equal(await queue().purge(unique("endpoint")), 0);
  });
}

function looking(queue: Queue, clock: Clock, claimOne: ClaimOne, enqueued: Enqueued): void {
  test("counts follow the jobs, with the submission time of the oldest that waits", async () => {
    const e = unique("endpoint");
    const empty = await queue().counts(e);
    assert.deepEqual(empty, {
      inQueue: 0,
      inQueueLowPriority: 0,
      delayed: 0,
      inProgress: 0,
      inProgressLowPriority: 0,
      completed: 0,
      failed: 0,
      retried: 0,
      oldestQueuedAt: null,
    });
    const oldest = clock.now;
    await enqueued(e, { lowPriority: true });
    clock.now += 5;
    await enqueued(e);
    await enqueued(e);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    await claimOne(e);
    const before = { ...empty, inQueue: 1, inQueueLowPriority: 1, inProgress: 1, completed: 1, oldestQueuedAt: oldest };
    assert.deepEqual(await queue().counts(e), before);
    const low = await claimOne(e);
    assert.deepEqual(await queue().counts(e), {
      ...before,
      inQueue: 0,
      inQueueLowPriority: 0,
      inProgress: 2,
      inProgressLowPriority: 1,
      oldestQueuedAt: null,
    });
    await queue().finish(low, { state: "COMPLETED", output: OUTPUT });
    assert.equal((await queue().counts(e)).inProgressLowPriority, 0);
  });

  test("a list is newest first, can be of one state, and goes on before a job", async () => {
    const e = unique("endpoint");
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await enqueued(e, { lowPriority: i === 2 }));
    await queue().finish(await claimOne(e), { state: "FAILED", error: "x" });
    await claimOne(e);
    const list = async (options: Parameters<JobQueue["list"]>[1]) =>
      (await queue().list(e, options)).map((job) => [ids.indexOf(job.id), job.state]);
    assert.deepEqual(await list({ limit: 10 }), [
      [4, "IN_QUEUE"],
      [3, "IN_QUEUE"],
      [2, "IN_QUEUE"],
      [1, "IN_PROGRESS"],
      [0, "FAILED"],
    ]);
    assert.deepEqual(await list({ limit: 2, before: ids[2]! }), [
      [1, "IN_PROGRESS"],
      [0, "FAILED"],
    ]);
    assert.deepEqual(await list({ limit: 1, state: "IN_QUEUE" }), [[4, "IN_QUEUE"]]);
    assert.deepEqual(await list({ limit: 9, state: "IN_PROGRESS" }), [[1, "IN_PROGRESS"]]);
    assert.deepEqual(await list({ limit: 9, state: "IN_PROGRESS", before: ids[1]! }), []);
    assert.deepEqual(await list({ limit: 9, state: "CANCELLED" }), []);
    assert.deepEqual(await list({ limit: 9, state: "FAILED" }), [[0, "FAILED"]]);
    assert.equal((await queue().list(e, { limit: 9, state: "FAILED" }))[0]?.error, "x");
    assert.deepEqual(await queue().list(unique("endpoint"), { limit: 9 }), []);
  });

  test("a list can be of the jobs whose id, or the UUID in it, begins in a way", async () => {
    const e = unique("endpoint");
    const start = unique("id");
    const ids = [`${start}-1`, `${start}-2`, `sync-${start}-3`, `other-${start}`];
    for (const id of ids) await enqueued(e, { id });
    await enqueued(unique("endpoint"), { id: `${start}-4` });
    const list = async (idStart: string, limit = 9) =>
      (await queue().list(e, { limit, idStart })).map((job) => ids.indexOf(job.id));
    assert.deepEqual(await list(start), [2, 1, 0]);
    assert.deepEqual(await list(start, 1), [2]);
    assert.deepEqual(await list(`${start}-2`), [1]);
    assert.deepEqual(await list(`${start}-4`), []);
  });

  test("what a worker holds can be asked", async () => {
    const e = unique("endpoint");
    await enqueued(e);
    await enqueued(e);
    const worker = unique("worker");
    const jobs = await queue().claim(e, worker, 2, never);
    const claims = await queue().claimsOf(worker);
    const byId = (a: { jobId: string }, b: { jobId: string }) => a.jobId.localeCompare(b.jobId);
    assert.deepEqual(claims.sort(byId), jobs.map(({ jobId, fence }) => ({ jobId, fence })).sort(byId));
    assert.deepEqual(await queue().claimsOf(unique("worker")), []);
  });
}

function streams(under: () => QueueUnderTest, claimOne: ClaimOne, enqueued: Enqueued): void {
  const queue = () => under().queue;

  test("progress is the job's output while it runs", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    await queue().progress(claim, Buffer.from('"half"'));
    assert.equal(text((await queue().find(id))?.output), '"half"');
    await queue().progress({ ...claim, fence: claim.fence + 1 }, Buffer.from('"stale"'));
    assert.equal(text((await queue().find(id))?.output), '"half"');
    await queue().release(claim, "handed-back");
    assert.equal((await queue().find(id))?.output, null);
  });

  test("chunks are handed out once, in order, also large ones; the final answer carries the rest", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const big = large("c");
    // Not awaited one by one: a worker sends them faster than a large one is written.
    await Promise.all([
      queue().chunk(claim, Buffer.from("1")),
      queue().chunk(claim, big),
      queue().chunk(claim, Buffer.from("3")),
    ]);
    const first = await queue().takeChunks(id, 0);
    assert.deepEqual(first?.chunks.map(text), ["1", text(big), "3"]);
    assert.deepEqual(await queue().takeChunks(id, 0), { state: "IN_PROGRESS", chunks: [], run: 0 });
    void queue().chunk(claim, Buffer.from("4"));
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: Buffer.from("[1]") }), true);
    const last = await queue().takeChunks(id, 60_000);
    assert.deepEqual([last?.state, last?.chunks.map(text)], ["COMPLETED", ["4"]]);
    assert.deepEqual(await queue().takeChunks(id, 60_000), { state: "COMPLETED", chunks: [], run: 0 });
    assert.equal(await queue().takeChunks("unknown", 60_000), undefined);
  });

  test("chunks that are read by number stay: who lost an answer asks again", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const big = large("c");
    for (const chunk of [Buffer.from("1"), big]) await queue().chunk(claim, chunk);
    const first = (await queue().readChunks(id, 0, 0))!;
    assert.deepEqual(first.chunks.map(text), ["1", text(big)]);
    assert.deepEqual(await queue().readChunks(id, 0, 0), first);
    const [one, two] = first.numbers as [number, number];
    assert.ok(one < two);
    assert.deepEqual((await queue().readChunks(id, one, 0))?.chunks.map(text), [text(big)]);
    assert.deepEqual(await queue().readChunks(id, two, 0), { state: "IN_PROGRESS", chunks: [], numbers: [] });
    const waiting = queue().readChunks(id, two, 60_000);
    await queue().chunk(claim, Buffer.from("3"));
    const third = (await waiting)!;
    assert.deepEqual(third.chunks.map(text), ["3"]);
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    const behind = queue().readChunks(id, third.numbers[0]!, 60_000);
    assert.deepEqual(await behind, { state: "COMPLETED", chunks: [], numbers: [] });
    assert.deepEqual((await queue().readChunks(id, 0, 0))!.chunks.length, 3);
    assert.equal(await queue().readChunks("unknown", 0, 60_000), undefined);
  });

  test("an answer holds a bounded part of a stream, and no final state before all of it was asked for", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const bytes = Math.floor(STREAM_ANSWER_MAX_BYTES / 3);
    for (const fill of "abcdefg") await queue().chunk(claim, Buffer.alloc(bytes, fill));
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    const first = (chunks: readonly Uint8Array[]) => chunks.map((chunk) => String.fromCharCode(chunk[0]!)).join("");
    const read: string[] = [];
    for (let after = 0, state = ""; state !== "COMPLETED"; ) {
      const answer = (await queue().readChunks(id, after, 60_000))!;
      state = answer.state;
      after = answer.numbers.at(-1)!;
      read.push(`${first(answer.chunks)} ${state}`);
    }
    assert.deepEqual(read, ["ab IN_PROGRESS", "cd IN_PROGRESS", "ef IN_PROGRESS", "g COMPLETED"]);
    const taken: string[] = [];
    for (let n = 0; n < 5; n++) {
      const answer = (await queue().takeChunks(id, 60_000))!;
      taken.push(`${first(answer.chunks)} ${answer.state}`);
    }
    assert.deepEqual(taken, [...read, " COMPLETED"]);
  });

  test("one chunk larger than an answer comes alone", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    for (const bytes of [1, STREAM_ANSWER_MAX_BYTES + 1, 1]) await queue().chunk(claim, Buffer.alloc(bytes, "x"));
    for (const bytes of [1, STREAM_ANSWER_MAX_BYTES + 1, 1]) {
      const answer = await queue().takeChunks(id, 0);
      assert.deepEqual(
        answer?.chunks.map((chunk) => chunk.byteLength),
        [bytes],
      );
    }
  });

  test("a chunk that is too large for who asks stays, and its size is told; it goes to nobody who follows", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const big = Buffer.alloc(STREAM_ANSWER_MAX_BYTES + 1, "b");
    const taker = (holdMs: number, chunkMaxBytes: number) => queue().takeChunks(id, holdMs, never, chunkMaxBytes);
    const leftOut = { state: "IN_PROGRESS", chunks: [], leftOutBytes: big.length } as const;
    // Also one who waits for it gets none.
    const waiting = taker(60_000, big.length - 1);
    await queue().chunk(claim, big);
    assert.deepEqual(await waiting, { ...leftOut, run: 0 });
    const reading = await queue().readChunks(id, 0, 60_000, never, big.length - 1);
    assert.deepEqual(reading, { ...leftOut, numbers: [] });
    assert.ok(big.equals((await queue().readChunks(id, 0, 0, never, big.length))!.chunks[0]!));
    const following = async () => {
      const seen: string[] = [];
      const follows = queue().followChunks(id, 0, 60_000, (chunk) => seen.push(text(chunk)!) > 0);
      await queue().chunk(claim, Buffer.from("1"));
      await queue().chunk(claim, big);
      await queue().chunk(claim, Buffer.from("2"));
      assert.equal(await follows, true);
      return seen;
    };
    const taken = (await taker(60_000, big.length))!;
    assert.ok(big.equals(taken.chunks[0]!) && taken.leftOutBytes === undefined);
    assert.deepEqual(await following(), ["1"]);
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    assert.deepEqual(await taker(60_000, 1), { ...leftOut, run: 0 });
    assert.ok(big.equals((await taker(0, big.length))!.chunks[0]!));
    const last = (await taker(0, 1))!;
    assert.deepEqual([last.state, last.chunks.map(text)], ["COMPLETED", ["2"]]);
  });

  test("the chunks of a later run have higher numbers than all of the run before, also after a crash", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const first = await claimOne(e);
    for (const chunk of ["1", "2", "3"]) await queue().chunk(first, Buffer.from(chunk));
    const last = (await queue().readChunks(id, 0, 0))!.numbers.at(-1)!;
    await queue().release(first, "lost");
    await under().reopen();
    const second = await claimOne(e);
    await queue().chunk(second, Buffer.from("again"));
    const answer = (await queue().readChunks(id, last, 0))!;
    assert.deepEqual(answer.chunks.map(text), ["again"]);
    await queue().finish(second, { state: "FAILED", error: "x" });
    await queue().retry(id);
    await queue().chunk(await claimOne(e), Buffer.from("once more"));
    assert.deepEqual((await queue().readChunks(id, answer.numbers[0]!, 0))!.chunks.map(text), ["once more"]);
  });

  test("of many progress updates at once the last one stands", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const updates = Array.from({ length: 20 }, (_, n) => (n === 19 ? Buffer.from('"last"') : large(String(n % 10))));
    await Promise.all(updates.map((update) => queue().progress(claim, update)));
    assert.ok(text((await queue().find(id))?.output) === '"last"');
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), true);
  });

  test("chunks that are being handed out survive a sweep, also large ones", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const chunks = ["a", "b", "c", "d", "e", "f"].map(large);
    for (const chunk of chunks) await queue().chunk(claim, chunk);
    let taking = true;
    const taken = queue()
      .takeChunks(id, 0)
      .finally(() => {
        taking = false;
      });
    while (taking) await queue().sweep();
    assert.deepEqual(
      (await taken)?.chunks.map((chunk) => chunks.findIndex((sent) => sent.equals(chunk))),
      [0, 1, 2, 3, 4, 5],
    );
  });

  test("who waits for a chunk gets it the moment it is there", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const waiting = queue().takeChunks(id, 60_000);
    await queue().chunk(claim, Buffer.from('"a"'));
    assert.deepEqual((await waiting)?.chunks.map(text), ['"a"']);
    const end = queue().takeChunks(id, 60_000);
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    assert.deepEqual(await end, { state: "COMPLETED", chunks: [], run: 0 });
  });

  test("chunks come once and in order to one who waits, however many come at a time", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const sent: string[] = [];
    const taken: string[] = [];
    const taking = (async () => {
      for (;;) {
        const { state, chunks } = (await queue().takeChunks(id, 60_000))!;
        taken.push(...chunks.map((chunk) => text(chunk)!));
        if (state === "COMPLETED") return;
      }
    })();
    for (const burst of [1, 3, 1, 1, 7, 2, 1]) {
      const coming = Array.from({ length: burst }, (_, n) => {
        const chunk = n === 2 ? large(`${sent.length}`) : Buffer.from(`${sent.length}`);
        sent.push(text(chunk)!);
        return queue().chunk(claim, chunk);
      });
      // The next come now while the last are being stored, now when they were taken.
      if (burst % 2 === 1) await Promise.all(coming);
    }
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    await taking;
    assert.deepEqual(taken, sent);
  });

  test("who follows a job gets its chunks at once and in order, as long as it takes them; the rest is there for it", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    assert.equal(await queue().followChunks(id, 0, 60_000, () => true), false, "it does not run");
    const claim = await claimOne(e);
    assert.equal(await queue().followChunks(id, 1, 60_000, () => true), false, "it is another run");
    const seen: string[] = [];
    const take = (chunk: Uint8Array) => seen.push(text(chunk)!) < 3;
    const following = queue().followChunks(id, 0, 60_000, take);
    assert.equal(await queue().followChunks(id, 0, 60_000, take), false, "one does so already");
    assert.equal(queue().passChunk({ ...claim, fence: claim.fence + 1 }, Buffer.from("0")), false, "of a lost worker");
    assert.equal(queue().passChunk(claim, Buffer.from("1")), true);
    assert.equal(queue().passChunk(claim, large("2")), true);
    await queue().chunk(claim, Buffer.from("3"));
    assert.deepEqual(seen, ["1", text(large("2")), "3"]);
    assert.equal(queue().passChunk(claim, Buffer.from("4")), false, "it takes no more");
    await queue().chunk(claim, Buffer.from("4"));
    assert.equal(await following, true);
    assert.equal(await queue().followChunks(id, 0, 60_000, take), false, "some are stored");
    const rest = await queue().takeChunks(id, 0);
    assert.deepEqual([rest?.state, rest?.chunks.map(text)], ["IN_PROGRESS", ["4"]]);
    const ends = queue().followChunks(id, 0, 60_000, take);
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    assert.equal(await ends, true);
    assert.equal(queue().passChunk(claim, Buffer.from("5")), false);
    assert.deepEqual(await queue().takeChunks(id, 0), { state: "COMPLETED", chunks: [], run: 0 });
    assert.equal(seen.length, 3);
  });

  test("who follows a job gets nothing of its next run, and nothing that another looks for too", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const seen: string[] = [];
    const follow = () => queue().followChunks(id, 0, 60_000, (chunk) => seen.push(text(chunk)!) > 0);
    const first = follow();
    const reading = queue().readChunks(id, 0, 60_000);
    await setImmediate(); // Both wait.
    await queue().chunk(claim, Buffer.from("1"));
    assert.equal(await first, true);
    assert.deepEqual([(await reading)!.chunks.map(text), seen], [["1"], []]);
    assert.deepEqual((await queue().takeChunks(id, 0))?.chunks.map(text), ["1"]);
    const second = follow();
    await queue().release(claim, "lost", "killed");
    const again = await claimOne(e, "w2");
    await queue().chunk(again, Buffer.from("2"));
    assert.equal(queue().passChunk(again, Buffer.from("3")), false);
    const left = await queue().takeChunks(id, 0);
    assert.deepEqual([left?.run, left?.chunks.map(text), seen], [1, ["2"], []]);
    const over = new AbortController();
    const third = queue().followChunks(id, 1, 60_000, () => true, over.signal);
    over.abort();
    assert.equal(await third, true);
    assert.equal(await second, true);
  });

  test("a chunk for which one waits is there by its number too when another asks so", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    const taking = queue().takeChunks(id, 60_000);
    const reading = queue().readChunks(id, 0, 60_000);
    await setImmediate(); // Both wait.
    await queue().chunk(claim, Buffer.from('"a"'));
    const both = await Promise.all([taking, reading]);
    assert.ok(both.some((answer) => answer!.chunks.map(text).includes('"a"')));
    // Neither keeps the next from the other.
    const again = [queue().takeChunks(id, 60_000), queue().takeChunks(id, 60_000)];
    await setImmediate();
    await queue().chunk(claim, Buffer.from('"b"'));
    await queue().finish(claim, { state: "COMPLETED", output: OUTPUT });
    const chunks = (await Promise.all(again)).flatMap((answer) => answer!.chunks.map(text));
    assert.deepEqual(chunks, ['"b"']);
  });

  test("one who waits no more takes no chunk from the next, nor does a worker that holds the job no more", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const lost = await claimOne(e);
    const leaving = new AbortController();
    const left = queue().takeChunks(id, 60_000, leaving.signal);
    leaving.abort();
    assert.deepEqual((await left)?.chunks, []);
    await queue().chunk(lost, Buffer.from("1"));
    assert.deepEqual((await queue().takeChunks(id, 60_000))?.chunks.map(text), ["1"]);
    const waiting = queue().takeChunks(id, 60_000);
    await queue().release(lost, "lost");
    await queue().chunk(lost, Buffer.from("stale"));
    const second = await claimOne(e);
    await queue().chunk(lost, Buffer.from("stale"));
    await queue().chunk(second, Buffer.from("2"));
    const { chunks, run } = (await waiting)!;
    assert.deepEqual([chunks.map(text), run], [["2"], 1]);
  });

  test("chunks say which run of their job they are of: one that was lost and one that failed are followed by others", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const runs: (number | undefined)[] = [];
    const lost = await claimOne(e);
    await queue().chunk(lost, Buffer.from("1"));
    runs.push((await queue().takeChunks(id, 0))?.run);
    await queue().chunk(lost, Buffer.from("2"));
    await queue().release(lost, "lost");
    runs.push((await queue().takeChunks(id, 0))?.run);
    const waiting = queue().takeChunks(id, 60_000);
    const second = await claimOne(e);
    await queue().chunk(second, Buffer.from("1"));
    const { run, chunks } = (await waiting)!;
    assert.deepEqual([...runs, run, chunks.map(text)], [0, 1, 1, ["1"]]);
  });
}

function outbox(
  under: () => QueueUnderTest,
  clock: Clock,
  claimOne: ClaimOne,
  enqueued: Enqueued,
  stateOf: StateOf,
): void {
  const queue = () => under().queue;
  const hook = (host = `${unique("host")}.test`) => ({ host, webhook: `https://${host}/hook?token=x` });
  const owed = async (host: string) =>
    (await queue().dueDeliveries(1_000, [])).filter((delivery) => delivery.host === host);
  const failed = async (endpointId: string) =>
    queue().finish(await claimOne(endpointId), { state: "FAILED", error: "x" });

  test("a job with a webhook owes one delivery from its final state on, whichever that is, also after a crash", async () => {
    const e = unique("endpoint");
    const { host, webhook } = hook();
    const done = await enqueued(e, { webhook });
    assert.deepEqual(await owed(host), []);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    const cancelled = await enqueued(e, { webhook });
    await queue().cancel(cancelled);
    await queue().cancel(cancelled);
    const lost = await enqueued(e, { webhook });
    for (let losses = 0; losses < 2; losses++) await queue().release(await claimOne(e), "lost");
    assert.equal(await stateOf(lost), "FAILED");
    await under().reopen();
    assert.deepEqual(
      (await owed(host)).map(({ jobId, url, failures }) => [jobId, url, failures]),
      [done, cancelled, lost].map((id) => [id, webhook, 0]),
    );
  });

  test("a settled delivery is owed no more, one to be tried again is due at its time", async () => {
    const e = unique("endpoint");
    const { host, webhook } = hook();
    const [first, second] = [await enqueued(e, { webhook }), await enqueued(e, { webhook })];
    await failed(e);
    await failed(e);
    const [one, two] = await owed(host);
    await queue().settleDelivery(one!.id, null);
    await queue().settleDelivery(two!.id, clock.now + 10_000);
    assert.deepEqual([one!.jobId, two!.jobId], [first, second]);
    clock.now += 9_999;
    assert.deepEqual(await owed(host), []);
    clock.now += 1;
    assert.deepEqual(await owed(host), [{ ...two!, failures: 1 }]);
  });

  test("deliveries come longest due first, without those to given hosts", async () => {
    const e = unique("endpoint");
    const [a, b] = [hook(), hook()];
    const jobs = [await enqueued(e, a), await enqueued(e, b), await enqueued(e, a)];
    for (const _ of jobs) {
      clock.now += 1;
      await failed(e);
    }
    const due = await queue().dueDeliveries(1_000, []);
    assert.deepEqual(
      due.filter(({ jobId }) => jobs.includes(jobId)).map(({ jobId }) => jobId),
      jobs,
    );
    const others = await queue().dueDeliveries(1_000, [a.host]);
    assert.deepEqual(
      others.filter(({ jobId }) => jobs.includes(jobId)).map(({ jobId }) => jobId),
      [jobs[1]],
    );
    assert.equal((await queue().dueDeliveries(2, [])).length, 2);
  });

  test("however much is owed to one receiver that is busy, those of all others get their turn", async () => {
    const e = unique("endpoint");
    const busy = hook();
    for (let n = 0; n < 2 * WEBHOOK_WINDOW_ROWS; n++) await enqueued(e, busy);
    for (let n = 0; n < 2 * WEBHOOK_WINDOW_ROWS; n++) await failed(e);
    clock.now += 1;
    const others = Array.from({ length: 2 * WEBHOOK_WINDOW_HOSTS }, () => hook());
    const jobs: string[] = [];
    for (const other of others) jobs.push(await enqueued(e, other));
    for (const _ of others) await failed(e);
    const met = new Set<string>();
    for (let looks = 0; looks < 100 && !jobs.every((job) => met.has(job)); looks++) {
      for (const { id, jobId, host } of await queue().dueDeliveries(32, [busy.host])) {
        assert.notEqual(host, busy.host);
        met.add(jobId);
        await queue().settleDelivery(id, null);
      }
    }
    assert.deepEqual(
      jobs.filter((id) => !met.has(id)),
      [],
    );
    await queue().forget(e);
  });

  test("a job is kept while its webhook is owed; a retry drops it, and so does the end of its endpoint", async () => {
    const e = unique("endpoint");
    const { host, webhook } = hook();
    const id = await enqueued(e, { webhook, retentionMs: 1 });
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    const again = await enqueued(e, { webhook });
    await failed(e);
    clock.now += 2;
    await queue().sweep();
    assert.equal(await stateOf(id), "COMPLETED");
    const [first, second] = await owed(host);
    await queue().retry(again);
    await failed(e);
    await queue().settleDelivery(second!.id, null);
    assert.deepEqual(
      (await owed(host)).map(({ jobId }) => jobId),
      [id, again],
      "ids are not used again",
    );
    await queue().settleDelivery(first!.id, null);
    await queue().sweep();
    assert.equal(await stateOf(id), undefined);
    await queue().forget(e);
    assert.deepEqual(await owed(host), []);
  });
}

function upkeep(
  under: () => QueueUnderTest,
  clock: Clock,
  claimOne: ClaimOne,
  enqueued: Enqueued,
  stateOf: StateOf,
): void {
  const queue = () => under().queue;

  test("a job that ends just while its endpoint is forgotten leaves nothing that keeps the queue from being opened", async () => {
    const turns = async (count: number) => {
      for (let n = 0; n < count; n++) await setImmediate();
    };
    const endpoints = Array.from({ length: 40 }, () => unique("endpoint"));
    const ids: string[] = [];
    for (const [n, e] of endpoints.entries()) {
      const ends = (async () => {
        for (let job = 0; job < 12; job++) {
          const id = await enqueued(e);
          ids.push(id);
          await turns((n + job) % 4);
          await under().queue.cancel(id);
          await turns(((n >> 2) + job) % 3);
        }
      })();
      const forgets = (async () => {
        for (let time = 0; time < 3; time++) await under().queue.forget(e);
      })();
      await Promise.all([ends, forgets]);
    }
    await under().reopen();
    const { queue } = under();
    for (const id of ids) assert.ok(["CANCELLED", undefined].includes((await queue.find(id))?.state));
    for (const e of endpoints) await queue.forget(e);
    for (const id of ids) assert.equal(await queue.find(id), undefined);
  });

  test("a job whose id there is already is refused alone: a claim that the same batch serves is served", async () => {
    const [e, other] = [unique("endpoint"), unique("endpoint")];
    const id = await enqueued(other);
    // What waits is not in memory then.
    await under().reopen();
    const claims = claimOne(e);
    const { queue } = under();
    const [again, fresh] = await Promise.allSettled([queue.enqueue(newJob(other, { id })), enqueued(e)]);
    assert.ok(again.status === "rejected" && again.reason.code === "CONFLICT", JSON.stringify(again));
    assert.ok(fresh.status === "fulfilled", JSON.stringify(fresh));
    assert.equal((await claims).jobId, fresh.value);
  });

  test("a claim whose lease passed is lost; a renewed one is not", async () => {
    const e = unique("endpoint");
    clock.now += LEASE_MS;
    await queue().expireLeases();
    const [kept, lost] = [await enqueued(e), await enqueued(e)];
    const [first, second] = [await claimOne(e), await claimOne(e)];
    clock.now += LEASE_MS - 1;
    assert.deepEqual(await queue().renew([first]), []);
    clock.now += 1;
    assert.equal(await queue().expireLeases(), 1);
    assert.deepEqual([await stateOf(kept), await stateOf(lost)], ["IN_PROGRESS", "IN_QUEUE"]);
    assert.deepEqual(await queue().renew([first, second]), [second]);
    assert.equal(await queue().finish(second, { state: "COMPLETED", output: OUTPUT }), false);
  });

  test("a clock that is set, forwards or back, ends no lease and lengthens none", async () => {
    const e = unique("endpoint");
    clock.now += LEASE_MS;
    await queue().expireLeases();
    const id = await enqueued(e);
    await claimOne(e);
    for (const step of [3_600_000, -7_200_000]) {
      clock.now += step;
      clock.stepped = (clock.stepped ?? 0) + step;
      assert.equal(await queue().expireLeases(), 0);
      assert.equal(await stateOf(id), "IN_PROGRESS");
    }
    clock.now += LEASE_MS;
    assert.equal(await queue().expireLeases(), 1);
    assert.equal(await stateOf(id), "IN_QUEUE");
  });

  test("what waits of an endpoint can be failed with one reason; what runs and what comes later is not", async () => {
    const e = unique("endpoint");
    const running = await enqueued(e);
    const claim = await claimOne(e);
    const webhook = `https://${unique("host")}.test/hook`;
    const waiting = [await enqueued(e), await enqueued(e, { lowPriority: true, webhook })];
    const heard: string[] = [];
    queue().events.jobFinished((job) => {
      if (job.endpointId === e) heard.push(job.id);
    });
    const error = JSON.stringify({ error_traceback: "x".repeat(INLINE_BODY_MAX_BYTES) });
    const told = queue().wait(waiting[0]!, 60_000);
    const failing = queue().failQueued(e, "w9", error);
    const later = await enqueued(e);
    assert.equal(await failing, 2);
    const job = (await told)!;
    assert.deepEqual([job.state, job.workerId, job.error === error], ["FAILED", "w9", true]);
    assert.deepEqual(await Promise.all([...waiting, running, later].map(stateOf)), [
      "FAILED",
      "FAILED",
      "IN_PROGRESS",
      "IN_QUEUE",
    ]);
    assert.deepEqual(heard, waiting);
    assert.ok((await queue().dueDeliveries(1_000, [])).some(({ jobId }) => jobId === waiting[1]));
    const counts = await queue().counts(e);
    assert.deepEqual([counts.inQueue, counts.inQueueLowPriority, counts.failed], [1, 0, 2]);
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), true);
    assert.equal(await queue().retry(waiting[0]!), true);
    assert.equal(await queue().failQueued(unique("endpoint"), "w9", error), 0);
  });

  test("of the jobs that wait, those of callers who wait still can be failed alone", async () => {
    const e = unique("endpoint");
    const sync = async (endpointId: string) =>
      (await queue().enqueue({ ...newJob(endpointId), id: runsyncJobId(unique("uuid")) })).id;
    const [awaited, left, elsewhere] = [await sync(e), await sync(e), await sync(unique("endpoint"))];
    const [asynchronous, looked] = [await enqueued(e), await enqueued(e)];
    const gone = new AbortController();
    const abandoned = queue().wait(left, 60_000, gone.signal);
    gone.abort();
    await abandoned;
    const [told, ...others] = [awaited, looked, elsewhere].map((id) => queue().wait(id, 60_000));
    assert.equal(await queue().failAwaited(e, "w9", "cannot start"), 1);
    assert.deepEqual([(await told)!.state, (await told)!.error], ["FAILED", "cannot start"]);
    const waiting = [left, asynchronous, looked, elsewhere];
    assert.deepEqual(await Promise.all(waiting.map(stateOf)), Array(4).fill("IN_QUEUE"));
    const counts = await queue().counts(e);
    assert.deepEqual([counts.inQueue, counts.failed], [3, 1]);
    assert.equal(await queue().failAwaited(unique("endpoint"), "w9", "cannot start"), 0);
    await Promise.all([looked, elsewhere].map((id) => queue().cancel(id)));
    await Promise.all(others);
  });

  test("time in which the queue was not there counts against no lease", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    const claim = await claimOne(e);
    clock.now += 10 * LEASE_MS;
    await under().reopen();
    assert.equal(await queue().expireLeases(), 0);
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), true);
    assert.equal(await stateOf(id), "COMPLETED");
  });

  test("leases can be given more time at start", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e);
    await claimOne(e);
    clock.now += LEASE_MS;
    await queue().graceLeases(5_000);
    assert.equal(await queue().expireLeases(), 0);
    clock.now += 5_000;
    assert.ok((await queue().expireLeases()) >= 1);
    assert.equal(await stateOf(id), "IN_QUEUE");
  });

  test("a job past its ttl is deleted unless it runs, and never handed out", async () => {
    const e = unique("endpoint");
    const running = await enqueued(e, { ttlMs: 1_000 });
    const claim = await claimOne(e);
    const queued = await enqueued(e, { ttlMs: 1_000 });
    const unseen = await enqueued(e, { ttlMs: 1_000 });
    const fresh = await enqueued(e);
    clock.now += 1_000;
    assert.equal((await claimOne(e)).jobId, fresh);
    await queue().sweep();
    assert.deepEqual([await stateOf(queued), await stateOf(unseen)], [undefined, undefined]);
    assert.equal(await stateOf(running), "IN_PROGRESS");
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), true);
    assert.equal((await queue().counts(e)).inQueue, 0);
  });

  test("a result is deleted after its retention; the totals stay", async () => {
    const e = unique("endpoint");
    const id = await enqueued(e, { retentionMs: 1_000 });
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    const failed = await enqueued(e, { retentionMs: 1_000 });
    await queue().finish(await claimOne(e), { state: "FAILED", error: "x" });
    clock.now += 999;
    await queue().sweep();
    assert.equal(await stateOf(id), "COMPLETED");
    clock.now += 1;
    assert.ok((await queue().sweep()) >= 1);
    assert.deepEqual([await stateOf(id), await stateOf(failed)], [undefined, "FAILED"], "failed jobs stay longer");
    assert.equal(await queue().findExpired(failed), undefined);
    clock.now += FAILED_RETENTION_MS - 1_000;
    assert.ok((await queue().sweep()) >= 1);
    assert.deepEqual([await stateOf(id), await stateOf(failed)], [undefined, undefined]);
    await under().reopen();
    const counts = await queue().counts(e);
    assert.deepEqual([counts.completed, counts.failed], [1, 1]);
  });

  test("that a job ran is known for seven days after its result is gone, in lists that ask for it", async () => {
    const e = unique("endpoint");
    const started = clock.now;
    const ids: string[] = [];
    for (const n of [1, 2, 3]) {
      ids.unshift(await enqueued(e, { retentionMs: n * 1_000 }));
      clock.now += 10;
      await queue().finish(await claimOne(e), { state: "COMPLETED", output: large(String(n)) });
    }
    clock.now += 2_000;
    await queue().sweep();
    await under().reopen();
    const list = (changes: object = {}) => queue().list(e, { limit: 10, expired: true, ...changes });
    assert.deepEqual(
      (await queue().list(e, { limit: 10 })).map(({ id }) => id),
      [ids[0]],
    );
    assert.deepEqual(
      (await list()).map(({ id, expired }) => [id, expired]),
      [
        [ids[0], undefined],
        [ids[1], true],
        [ids[2], true],
      ],
    );
    const paged = [await list({ limit: 2 }), await list({ limit: 2, before: ids[1] })];
    assert.deepEqual(
      paged.map((page) => page.map(({ id }) => id)),
      [[ids[0], ids[1]], [ids[2]]],
    );
    assert.deepEqual(
      (await list({ idStart: ids[2] })).map(({ id }) => id),
      [ids[2]],
    );
    assert.deepEqual(await list({ state: "FAILED" }), []);
    const job = await queue().findExpired(ids[2]!);
    assert.deepEqual(
      [
        job?.endpointId,
        job?.state,
        job?.output,
        job?.error,
        job?.workerId,
        job?.createdAt,
        job?.finishedAt,
        job?.expired,
      ],
      [e, "COMPLETED", null, "", "w1", started, started + 10, true],
    );
    assert.deepEqual(
      [await stateOf(ids[2]!), await queue().input(ids[2]!), await queue().retry(ids[2]!)],
      [undefined, undefined, false],
    );

    clock.now += EXPIRED_KEPT_MS - 1_000;
    await queue().sweep();
    assert.equal((await queue().findExpired(ids[2]!))?.id, ids[2]);
    clock.now += 1_000;
    await queue().sweep();
    assert.equal(await queue().findExpired(ids[2]!), undefined);
    assert.deepEqual(
      (await list()).map(({ id }) => id),
      [ids[0]],
    );
    await queue().forget(e);
    assert.equal(await queue().findExpired(ids[0]!), undefined);
  });

  test("an endpoint that is gone leaves no job behind", async () => {
    const e = unique("endpoint");
    await enqueued(e);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: OUTPUT });
    await enqueued(e);
    const running = await claimOne(e);
    await enqueued(e, { input: large("f") });
    assert.ok((await queue().endpointIds()).includes(e));
    await queue().forget(e);
    assert.ok(!(await queue().endpointIds()).includes(e));
    assert.deepEqual(await queue().list(e, { limit: 10 }), []);
    assert.deepEqual(Object.values(await queue().counts(e)), [0, 0, 0, 0, 0, 0, 0, 0, null]);
    assert.equal(await queue().finish(running, { state: "COMPLETED", output: OUTPUT }), false);
    await enqueued(e);
    assert.equal((await queue().counts(e)).inQueue, 1);
  });

  test("after a crash every accepted job, claim, result and chunk is there", async () => {
    const e = unique("endpoint");
    const done = await enqueued(e);
    await queue().finish(await claimOne(e), { state: "COMPLETED", output: large("o") });
    await enqueued(e);
    const claim = await claimOne(e);
    await queue().chunk(claim, Buffer.from("7"));
    const queued = await enqueued(e, { input: large("i"), idempotencyKey: "again" });
    const before = await queue().counts(e);
    await under().reopen();
    assert.deepEqual(await queue().counts(e), before);
    assert.ok(large("o").equals((await queue().find(done))!.output!));
    assert.deepEqual((await queue().takeChunks(claim.jobId, 0))?.chunks.map(text), ["7"]);
    assert.equal(await queue().finish(claim, { state: "COMPLETED", output: OUTPUT }), true);
    assert.deepEqual(await queue().enqueue(newJob(e, { idempotencyKey: "again" })), { id: queued, created: false });
    assert.ok(large("i").equals((await claimOne(e)).input));
  });
}
