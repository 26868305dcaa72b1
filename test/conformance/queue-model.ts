/**
 * Random interleavings against a reference model that knows nothing but the state machine: no job is lost, none is
 * finished twice, and the counts are always those of the rows.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { JOB_LOSSES_MAX, LEASE_MS } from "../../src/domain/limits.ts";
import type { ClaimedJob } from "../../src/queue/queue.ts";
import { newJob, type QueueUnderTest, type TestClock } from "./queue.ts";

type State = "IN_QUEUE" | "IN_PROGRESS" | "COMPLETED" | "FAILED" | "TIMED_OUT" | "CANCELLED";
interface ModelJob {
  state: State;
  losses: number;
  low: boolean;
  /** The fence that may still write; 0 when none. */
  fence: number;
  finishes: number;
}

const ENDPOINT = "e";
const never = new AbortController().signal;
const OUTPUT = Buffer.from("1");

class Model {
  readonly jobs = new Map<string, ModelJob>();
  /** Every claim ever handed out, also stale ones. */
  readonly claims: ClaimedJob[] = [];
  retried = 0;

  count(state: State): number {
    return [...this.jobs.values()].filter((job) => job.state === state).length;
  }
}

export interface ModelledQueue extends QueueUnderTest {
  /** Rows of each state. */
  states(): Promise<Map<number, number>>;
}

type Step = (model: Model, under: ModelledQueue, clock: { now: number }) => Promise<void>;

function enqueue(low: boolean): Step {
  return async (model, { queue }) => {
    const job = newJob(ENDPOINT, { lowPriority: low });
    await queue.enqueue(job);
    model.jobs.set(job.id, { state: "IN_QUEUE", losses: 0, low, fence: 0, finishes: 0 });
  };
}

function claim(count: number): Step {
  return async (model, { queue }) => {
    const expected = Math.min(count, model.count("IN_QUEUE"));
    if (expected === 0) return;
    const jobs = await queue.claim(ENDPOINT, "w", count, never);
    assert.equal(jobs.length, expected, "a claim takes what waits");
    for (const job of jobs) handedOut(model, job);
  };
}

/** Submits while a claim waits, so that the job is inserted as running. */
const submitToWaiting: Step = async (model, { queue }) => {
  if (model.count("IN_QUEUE") > 0) return;
  const waiting = queue.claim(ENDPOINT, "w", 1, never);
  await enqueue(false)(model, { queue } as ModelledQueue, { now: 0 });
  handedOut(model, (await waiting)[0]!);
};

function handedOut(model: Model, job: ClaimedJob): void {
  const known = model.jobs.get(job.jobId)!;
  assert.equal(known.state, "IN_QUEUE", "only a queued job is handed out");
  known.state = "IN_PROGRESS";
  known.fence = job.fence;
  assert.ok(!model.claims.some((old) => old.jobId === job.jobId && old.fence >= job.fence), "fences only rise");
  model.claims.push(job);
}

function finish(pick: number, state: "COMPLETED" | "FAILED" | "TIMED_OUT"): Step {
  return async (model, { queue }) => {
    const old = model.claims[pick % (model.claims.length || 1)];
    if (old === undefined) return;
    const job = model.jobs.get(old.jobId)!;
    const valid = job.state === "IN_PROGRESS" && job.fence === old.fence;
    const outcome = state === "COMPLETED" ? { state, output: OUTPUT } : { state, error: "x" };
    assert.equal(await queue.finish(old, outcome), valid, "only the holder of the fence finishes a job");
    if (!valid) return;
    job.state = state;
    job.finishes++;
  };
}

function release(pick: number, reason: "lost" | "handed-back"): Step {
  return async (model, { queue }) => {
    const old = model.claims[pick % (model.claims.length || 1)];
    if (old === undefined) return;
    await queue.release(old, reason);
    const job = model.jobs.get(old.jobId)!;
    if (job.state !== "IN_PROGRESS" || job.fence !== old.fence) return;
    if (reason === "handed-back") job.state = "IN_QUEUE";
    else lose(model, job);
  };
}

function lose(model: Model, job: ModelJob): void {
  if (job.losses >= JOB_LOSSES_MAX) {
    job.state = "FAILED";
    return;
  }
  job.state = "IN_QUEUE";
  job.losses++;
  model.retried++;
}

function cancel(pick: number): Step {
  return async (model, { queue }) => {
    const [id, job] = [...model.jobs][pick % (model.jobs.size || 1)] ?? [];
    if (id === undefined || job === undefined) return;
    if (job.state === "IN_QUEUE" || job.state === "IN_PROGRESS") job.state = "CANCELLED";
    assert.equal((await queue.cancel(id))?.state, job.state);
  };
}

function retry(pick: number): Step {
  return async (model, { queue }) => {
    const [id, job] = [...model.jobs][pick % (model.jobs.size || 1)] ?? [];
    if (id === undefined || job === undefined) return;
    const valid = job.state === "FAILED" || job.state === "TIMED_OUT";
    assert.equal(await queue.retry(id), valid);
    if (!valid) return;
    Object.assign(job, { state: "IN_QUEUE", losses: 0, finishes: 0 });
    model.retried++;
  };
}

const failQueued: Step = async (model, { queue }) => {
  assert.equal(await queue.failQueued(ENDPOINT, "w", "cannot start"), model.count("IN_QUEUE"));
  for (const job of model.jobs.values()) if (job.state === "IN_QUEUE") job.state = "FAILED";
};

const crash: Step = (_, under) => under.reopen();

const leasesPass: Step = async (model, { queue }, clock) => {
  clock.now += LEASE_MS;
  const running = [...model.jobs.values()].filter((job) => job.state === "IN_PROGRESS");
  assert.equal(await queue.expireLeases(), running.length);
  for (const job of running) lose(model, job);
};

async function agree(model: Model, { queue, states }: ModelledQueue): Promise<void> {
  const failed = model.count("FAILED") + model.count("TIMED_OUT");
  const expected = {
    inQueue: model.count("IN_QUEUE"),
    delayed: 0,
    inQueueLowPriority: [...model.jobs.values()].filter((job) => job.low && job.state === "IN_QUEUE").length,
    inProgress: model.count("IN_PROGRESS"),
    inProgressLowPriority: [...model.jobs.values()].filter((job) => job.low && job.state === "IN_PROGRESS").length,
    completed: model.count("COMPLETED"),
    failed,
    retried: model.retried,
  };
  const { oldestQueuedAt, ...counts } = await queue.counts(ENDPOINT);
  assert.deepEqual(counts, expected, "counts are those of the model");
  assert.equal(oldestQueuedAt !== null, expected.inQueue > 0);
  const rows = await states();
  const inRows = (...wanted: number[]) => wanted.reduce((sum, state) => sum + (rows.get(state) ?? 0), 0);
  assert.deepEqual(
    [inRows(0), inRows(1), inRows(2), inRows(3, 4)],
    [counts.inQueue, counts.inProgress, counts.completed, counts.failed],
    "counts are those of the rows",
  );
  for (const [id, job] of model.jobs) {
    assert.equal((await queue.find(id))?.state, job.state, "no job is lost");
    assert.ok(job.finishes <= 1, "none is finished twice");
  }
}

const pick = fc.nat({ max: 50 });
const step: fc.Arbitrary<{ name: string; run: Step }> = fc.oneof(
  { weight: 4, arbitrary: fc.boolean().map((low) => ({ name: `enqueue low=${low}`, run: enqueue(low) })) },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 3 }).map((n) => ({ name: `claim ${n}`, run: claim(n) })) },
  { weight: 2, arbitrary: fc.constant({ name: "submit to a waiting claim", run: submitToWaiting }) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(pick, fc.constantFrom("COMPLETED", "FAILED", "TIMED_OUT"))
      .map(([n, state]) => ({ name: `finish ${n} ${state}`, run: finish(n, state) })),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(pick, fc.constantFrom("lost", "handed-back"))
      .map(([n, reason]) => ({ name: `release ${n} ${reason}`, run: release(n, reason) })),
  },
  { weight: 1, arbitrary: pick.map((n) => ({ name: `cancel ${n}`, run: cancel(n) })) },
  { weight: 1, arbitrary: pick.map((n) => ({ name: `retry ${n}`, run: retry(n) })) },
  { weight: 1, arbitrary: fc.constant({ name: "leases pass", run: leasesPass }) },
  { weight: 1, arbitrary: fc.constant({ name: "fail what waits", run: failQueued }) },
  { weight: 1, arbitrary: fc.constant({ name: "crash", run: crash }) },
);
const steps = fc.array(
  step.map((s) => Object.assign(s, { toString: () => s.name })),
  { minLength: 1, maxLength: 60, size: "max" },
);

export function queueModel(name: string, open: (clock: TestClock) => Promise<ModelledQueue>, numRuns = 60): void {
  test(`${name}: no interleaving of submit, claim, crash, cancel, time-out, retry, loss and late result loses a job or a count`, async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const clock = { now: 1_700_000_000_000 };
        const under = await open(clock);
        try {
          const model = new Model();
          for (const { run } of sequence) {
            await run(model, under, clock);
            await agree(model, under);
          }
        } finally {
          await under.close();
        }
      }),
      { numRuns },
    );
  });

  test(`${name}: work started together ends as one consistent state, whatever shares a transaction`, async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const clock = { now: 1_700_000_000_000 };
        const under = await open(clock);
        try {
          const { queue } = under;
          const ids: string[] = [];
          let completed = 0;
          const stop = new AbortController();
          const work = async (signal: AbortSignal): Promise<void> => {
            for (const job of await queue.claim(ENDPOINT, "w", 2, signal)) {
              if (await queue.finish(job, { state: "COMPLETED", output: OUTPUT })) completed++;
            }
          };
          const pending = sequence.map(({ name }) => {
            const id = ids[name.length % (ids.length || 1)];
            if (name.startsWith("claim")) return work(stop.signal);
            if (name.startsWith("cancel") && id !== undefined) return queue.cancel(id);
            const job = newJob(ENDPOINT, { idempotencyKey: name.startsWith("retry") ? "same" : "" });
            ids.push(job.id);
            return queue.enqueue(job);
          });
          setImmediate(() => setImmediate(() => stop.abort()));
          await Promise.all(pending);
          while ((await queue.counts(ENDPOINT)).inQueue > 0) await work(never);
          const after = await queue.counts(ENDPOINT);
          assert.equal(after.completed, completed);
          const states = await Promise.all(ids.map(async (id) => (await queue.find(id))?.state));
          assert.ok(states.every((state) => state === undefined || state === "COMPLETED" || state === "CANCELLED"));
          assert.equal(states.filter((state) => state === "COMPLETED").length, completed);
          await under.reopen();
          assert.deepEqual(await under.queue.counts(ENDPOINT), after);
        } finally {
          await under.close();
        }
      }),
      { numRuns },
    );
  });
}
