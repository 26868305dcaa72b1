/** Short jobs whose callers wait, on a real PostgreSQL: they run before they are stored, and are stored with their end. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import pg from "pg";
import type { SvcError } from "../../src/domain/errors.ts";
import type { ClaimedJob, JobQueue, NewJob } from "../../src/queue/queue.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { claimOne, openedQueue } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const OUTPUT = Buffer.from('{"ok":true}');
const DONE = { state: "COMPLETED", output: OUTPUT } as const;

describe("short jobs whose callers wait, on PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    if ("bin" in found) server = await startPostgres(found.bin);
  });
  after(() => server?.stop());

  /** With an endpoint whose jobs take so long, by the queue's clock. */
  async function opened(t: TestContext, name: string, runMs = 0, options: Parameters<typeof openedQueue>[2] = {}) {
    const url = await server.database(name);
    let now = 0;
    const queue = await openedQueue(t, url, { monotonic: () => now, ...options });
    const e = unique("endpoint");
    const first = await queue.enqueue(awaited(e));
    assert.deepEqual(first, { id: first.id, created: true });
    const claim = await claimOne(queue, e);
    now += runMs;
    await queue.finish(claim, DONE);
    return { url, queue, e };
  }

  /** Until it is released, no batch is written. */
  async function holdBatches(t: TestContext, url: string) {
    const client = new pg.Client(url);
    client.on("error", () => {});
    await client.connect();
    let isHeld = true;
    const release = async () => {
      if (isHeld) await client.query("COMMIT");
      isHeld = false;
    };
    t.after(async () => {
      await release();
      await client.end();
    });
    await client.query("BEGIN");
    await client.query("SELECT FROM queue_shards FOR UPDATE");
    const waiting = () =>
      eventually(async () => {
        const { rows } = await client.query(
          "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        assert.equal(rows.length, 1, "no batch waits");
        return rows[0].pid as number;
      });
    return { release, waiting, query: (text: string) => client.query(text).then(({ rows }) => rows) };
  }

  test("run before they are stored; nobody is told before the commit, and the end comes with it", async (t) => {
    const { url, queue, e } = await opened(t, "early");
    const heard: string[] = [];
    queue.events.jobFinished(({ id }) => heard.push(id));
    const batches = await holdBatches(t, url);
    const finished = claimOne(queue, e).then((claim) => queue.finish(claim, DONE));
    const job = awaited(e);
    const enqueued = queue.enqueue(job);
    let told = 0;
    for (const promise of [finished, enqueued]) promise.then(() => (told += 1));
    await batches.waiting();
    assert.deepEqual([told, heard], [0, []], "it has run: its end is in the batch that waits");
    await batches.release();
    const { job: ended, ...rest } = await enqueued;
    assert.deepEqual(rest, { id: job.id, created: true });
    assert.equal(await finished, true);
    const stored = await queue.find(job.id);
    assert.deepEqual({ ...ended, output: text(ended?.output) }, { ...stored, output: text(stored?.output) });
    assert.equal(ended?.state, "COMPLETED");
    assert.deepEqual(heard, [job.id]);
    assert.equal((await queue.counts(e)).completed, 2);
    const inserts = "SELECT n_tup_ins::int AS n FROM pg_stat_user_tables WHERE relname = 'open_jobs'";
    await eventually(async () => assert.deepEqual(await batches.query(inserts), [{ n: 1 }], "of the first alone"));
  });

  test("that take longer than is waited for are stored while they run", async (t) => {
    const { queue, e } = await opened(t, "longer");
    const claimed = claimOne(queue, e);
    const job = awaited(e);
    assert.deepEqual(await queue.enqueue(job), { id: job.id, created: true });
    assert.equal((await queue.find(job.id))?.state, "IN_PROGRESS");
    const waited = queue.wait(job.id, 60_000);
    assert.equal(await queue.finish(await claimed, DONE), true);
    assert.equal((await waited)?.state, "COMPLETED");
  });

  test("that say something before their end are stored as any other", async (t) => {
    const { queue, e } = await opened(t, "chunks");
    const said = claimOne(queue, e).then(async (claim) => {
      const chunk = queue.chunk(claim, Buffer.from("1"));
      return Promise.all([chunk, queue.finish(claim, DONE)]);
    });
    const { id } = await queue.enqueue(awaited(e));
    await said;
    assert.deepEqual((await queue.readChunks(id, 0, 0))?.chunks, [Buffer.from("1")]);
    assert.equal((await queue.find(id))?.state, "COMPLETED");
  });

  const STORED_FIRST: readonly (readonly [string, Partial<NewJob>])[] = [
    ["whose caller does not wait", { isAwaited: false }],
    ["with an idempotency key", { idempotencyKey: "k" }],
    ["with a webhook", { webhook: "https://r.test/" }],
    ["that is sent again", { isSentAgain: true }],
  ];
  for (const [what, changes] of STORED_FIRST) {
    test(`a job ${what} is stored before it runs`, async (t) => {
      const { url, queue, e } = await opened(t, `first_${STORED_FIRST.findIndex(([one]) => one === what)}`);
      await storedFirst(t, url, queue, awaited(e, changes));
    });
  }

  test("a job of an endpoint whose jobs take long is stored before it runs", async (t) => {
    const { url, queue, e } = await opened(t, "long", 50);
    await storedFirst(t, url, queue, awaited(e));
  });

  test("where it is switched off every job is stored before it runs", async (t) => {
    const { url, queue, e } = await opened(t, "off", 0, { runsEarly: false });
    await storedFirst(t, url, queue, awaited(e));
  });

  async function storedFirst(t: TestContext, url: string, queue: JobQueue, job: NewJob) {
    const batches = await holdBatches(t, url);
    let claim: ClaimedJob | undefined;
    const claimed = claimOne(queue, job.endpointId).then((one) => {
      claim = one;
    });
    const enqueued = queue.enqueue(job);
    await batches.waiting();
    assert.equal(claim, undefined);
    await batches.release();
    await Promise.all([claimed, enqueued]);
    assert.equal(claim!.jobId, job.id);
    assert.equal(await queue.finish(claim!, DONE), true);
  }

  test("a connection that is ended before the commit: the batch is sent again, and each ends once", async (t) => {
    const { url, queue, e } = await opened(t, "ended");
    const batches = await holdBatches(t, url);
    const finished = claimOne(queue, e).then((claim) => queue.finish(claim, DONE));
    const enqueued = queue.enqueue(awaited(e));
    await server.sql(`SELECT pg_terminate_backend(${await batches.waiting()})`);
    await batches.release();
    assert.equal((await enqueued).job?.state, "COMPLETED");
    assert.equal(await finished, true);
    assert.equal((await queue.counts(e)).completed, 2);
  });

  test("of a platform that was taken over meanwhile: its caller is told, and nothing of the job is there", async (t) => {
    const told: SvcError[] = [];
    const { url, queue, e } = await opened(t, "taken", 0, { lost: (error) => told.push(error) });
    const second = await openedQueue(t, url);
    const claimed = claimOne(queue, e);
    const job = awaited(e);
    const enqueued = queue.enqueue(job);
    const claim = await claimed;
    const finished = queue.finish(claim, DONE);
    await assert.rejects(enqueued, { code: "SHUTTING_DOWN" });
    await assert.rejects(finished, { code: "SHUTTING_DOWN" });
    assert.equal(told.length, 1);
    assert.equal(await second.find(job.id), undefined);
    assert.equal(
      await second.finish(claim, DONE),
      false,
      "what its worker brings to the next platform is not of any job",
    );
  });

  test("of many callers at once: each is answered with its own, and all are stored once", async (t) => {
    const { queue, e } = await opened(t, "many");
    const stop = new AbortController();
    const worker = async () => {
      while (!stop.signal.aborted) {
        for (const claim of await queue.claim(e, "w1", 8, stop.signal))
          await queue.finish(claim, { state: "COMPLETED", output: claim.input });
      }
    };
    const workers = Promise.all([worker(), worker(), worker()]);
    const call = async (n: number) => {
      const input = Buffer.from(`{"input":${n}}`);
      const { id, job } = await queue.enqueue(awaited(e, { input }));
      const ended = job ?? (await queue.wait(id, 60_000));
      assert.equal(text(ended?.output), text(input));
    };
    await Promise.all(
      Array.from({ length: 16 }, async (_, caller) => {
        for (let n = 0; n < 25; n++) await call(caller * 25 + n);
      }),
    );
    assert.equal((await queue.counts(e)).completed, 401);
    stop.abort();
    await workers;
  });
});

function awaited(endpointId: string, changes: Partial<NewJob> = {}): NewJob {
  return newJob(endpointId, { isAwaited: true, ...changes });
}

function text(bytes: Uint8Array | null | undefined): string | undefined {
  return bytes == null ? undefined : Buffer.from(bytes).toString();
}
