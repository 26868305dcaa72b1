/** A queue's rows from SQLite to PostgreSQL and back, broken off after every batch. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { openSqlite } from "../../src/lib/sqlite.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { countPostgres, countSqlite } from "../../src/queue/moving/counts.ts";
import { jobsToPostgres, type ToPostgresState } from "../../src/queue/moving/jobs-to-postgres.ts";
import { jobsToSqlite, type ToSqliteState } from "../../src/queue/moving/jobs-to-sqlite.ts";
import type { Transaction } from "../../src/queue/moving/moved-jobs.ts";
import type { Query } from "../../src/queue/postgres/connection.ts";
import { migrateQueue as migratePostgres } from "../../src/queue/postgres/schema.ts";
import { openPostgresQueue } from "../../src/queue/postgres-queue.ts";
import type { ClaimedJob, JobQueue } from "../../src/queue/queue.ts";
import { BodyFiles } from "../../src/queue/sqlite/body-files.ts";
import { migrateQueue } from "../../src/queue/sqlite/schema.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { newJob } from "../conformance/queue.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { postgresAt } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;

const START = 1_700_000_000_000;
const MANY = 2_300;
const never = new AbortController().signal;
const large = (fill: string) => Buffer.from(JSON.stringify(fill.repeat(100_000)));
const textOf = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString();
const small = (text: string) => Buffer.from(JSON.stringify(text));

describe("a queue that moves", { skip }, () => {
  let server: PostgresServer;
  const dir = mkdtempSync(path.join(tmpdir(), "svc-moving-"));
  let now = START;
  const clock = () => now;

  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(async () => {
    await server?.stop();
    rmSync(dir, { recursive: true });
  });

  const openSqliteAt = async (name: string) => {
    const database = openSqlite(path.join(dir, `${name}.db`), "normal");
    const queue = await openSqliteQueue({ database, blobDir: path.join(dir, name), clock });
    return { database, queue };
  };

  /** Jobs in every state, in two endpoints, with all that a job can have. Resolves their ids. */
  async function fill(queue: JobQueue): Promise<string[]> {
    const ids: string[] = [];
    const add = async (endpoint: string, changes: Parameters<typeof newJob>[1] = {}) => {
      now += 7;
      const { id } = await queue.enqueue(newJob(endpoint, { ttlMs: 10 ** 9, retentionMs: 10 ** 9, ...changes }));
      ids.push(id);
      return id;
    };
    const claim = async (endpoint: string, worker = "w1"): Promise<ClaimedJob> =>
      (await queue.claim(endpoint, worker, 1, never))[0]!;
    const again = { max: 3, delayMs: 3_600_000, backoff: 1, maxDelayMs: 3_600_000 };
    const ends = [
      (job: ClaimedJob) => queue.finish(job, { state: "COMPLETED", output: large("o") }),
      (job: ClaimedJob) => queue.finish(job, { state: "FAILED", error: "Error: no\0thing", output: small("half") }),
      (job: ClaimedJob) => queue.finish(job, { state: "TIMED_OUT", error: "too long" }),
      (job: ClaimedJob) => queue.finish(job, { state: "FAILED", error: "E", again }),
      (job: ClaimedJob) => queue.release(job, "lost"),
    ];
    for (const [index, end] of ends.entries()) {
      await add("busy", {
        webhook: "https://example.org/hook",
        idempotencyKey: `key ${index}`,
        input: large(`${index}`),
      });
      await end(await claim("busy"));
    }
    await queue.cancel(await add("busy"));
    const failed = await add("other", { method: "run", webhook: "https://example.com/x" });
    await queue.finish(await claim("other"), { state: "FAILED", error: "once" });
    now += 60_000;
    await queue.retry(failed);
    const gone = await add("other", { retentionMs: 1 });
    while ((await queue.find(gone))?.state === "IN_QUEUE") {
      const job = await claim("other");
      if (job.jobId === gone) await queue.finish(job, { state: "COMPLETED", output: small("gone") });
      else await queue.finish(job, { state: "FAILED", error: "twice", again: { ...again, max: 9 } });
    }
    now += 10;
    await queue.sweep();
    assert.equal(await queue.find(gone), undefined);
    await add("streams");
    const runs = await claim("streams", "w2");
    for (const chunk of [small("one"), large("two"), small("three")]) await queue.chunk(runs, chunk);
    await queue.progress(runs, small("so far"));
    await queue.setSchedule("other", { spec: "* * * * *", until: now, paused: true });
    await add("busy", { lowPriority: true });
    await Promise.all(Array.from({ length: MANY }, () => add("waits")));
    return ids;
  }

  /** All that callers see. */
  async function seen(queue: JobQueue, ids: readonly string[]) {
    const jobs = [];
    // Of the many, the first and the last.
    for (const id of [...ids.slice(0, 20), ...ids.slice(-5)]) {
      const job = (await queue.find(id)) ?? (await queue.findExpired(id));
      jobs.push([job && { ...job, output: textOf(job.output) }, textOf(await queue.input(id))]);
    }
    const order: string[] = [];
    for (let before: number | undefined; ; ) {
      const page = await queue.search({ limit: 500, ...(before !== undefined && { before }) });
      order.push(...page.jobs.map(({ id }) => id));
      before = page.next;
      if (before === undefined) break;
    }
    const endpoints = ["busy", "other", "streams", "waits"];
    const counts = await Promise.all(endpoints.map((endpoint) => queue.counts(endpoint)));
    const deliveries = (await queue.dueDeliveries(100, []))
      .map(({ jobId, url, failures }) => [jobId, url, failures])
      .sort();
    const streams = [];
    for (const id of ids.slice(0, 20)) streams.push((await queue.readChunks(id, 0, 0))?.chunks.map(textOf));
    return { jobs, order, counts, deliveries, streams, schedule: await queue.scheduleOf("other") };
  }

  test("it is the same on PostgreSQL and back on SQLite, goes on after every batch that was the last, and its jobs run on", async () => {
    const first = await openSqliteAt("first");
    const ids = await fill(first.queue);
    const before = await seen(first.queue, ids);
    await first.queue.close();

    const url = await server.database("moved");
    const postgres = postgresAt(url);
    const query: Query = async (text, values) => (await postgres.query(text, values)).rows as never[];
    const transaction: Transaction = async (work) => {
      const connection = await postgres.acquire();
      try {
        await connection.query("BEGIN");
        const result = await work(async (text, values) => (await connection.query(text, values)).rows as never[]);
        await connection.query("COMMIT");
        return result;
      } finally {
        connection.release();
      }
    };
    await migratePostgres({ transaction });
    await query("CREATE TABLE book (state text)");
    await query("INSERT INTO book VALUES (NULL)");
    const bodies = await DiskBodyStore.open(path.join(dir, "bodies"), false);
    const files = new BodyFiles(path.join(dir, "first"), false);
    let batches = 0;
    const moved = await untilDone(async (signal, stop) => {
      const [{ state }] = (await query<{ state: string | null }>("SELECT state FROM book")) as [
        { state: string | null },
      ];
      return jobsToPostgres({
        ...{ source: first.database.connection, transaction, bodies, clock, signal },
        readBody: (reference) => files.read(reference),
        book: {
          before: state === null ? undefined : (JSON.parse(state) as ToPostgresState),
          write: (write, now) => write("UPDATE book SET state = $1", [JSON.stringify(now)]),
        },
        told: () => {
          batches += 1;
          stop();
        },
      });
    });
    assert.ok(batches > 2, `${batches} batches`);
    assert.equal(moved.lostBodies, 0);
    assert.deepEqual(await countPostgres(query), countSqlite(first.database.connection));
    first.database.close();

    const there = await openPostgresQueue({ postgres, bodies, clock });
    const middle = await seen(there, ids);
    assert.deepEqual(middle, before);
    const key = await there.enqueue(newJob("busy", { idempotencyKey: "key 0" }));
    assert.deepEqual(key, { id: ids[0]!, created: false });
    const [claimed] = await there.claim("waits", "w9", 1, never);
    assert.equal(claimed?.jobId, ids.at(-MANY), "the oldest");
    await there.finish(claimed!, { state: "COMPLETED", output: small("ran") });
    const [runs] = await there.claimsOf("w2");
    assert.ok(await there.finish(runs!, { state: "COMPLETED", output: small("its worker came back") }));
    now += 3;
    const late = await there.enqueue(newJob("busy", { ttlMs: 10 ** 9 }));
    const between = await seen(there, [...ids, late.id]);
    assert.equal(between.order[0], late.id);
    await there.close();

    const database = openSqlite(path.join(dir, "second.db"), "normal");
    const { connection } = database;
    migrateQueue(connection);
    connection.exec("CREATE TABLE book (state TEXT); INSERT INTO book VALUES (NULL)");
    await untilDone((signal, stop) => {
      const { state } = connection.prepare("SELECT state FROM book").get() as { state: string | null };
      return jobsToSqlite({
        ...{ query, target: connection, bodies, signal, told: stop },
        files: new BodyFiles(path.join(dir, "second"), false),
        before: state === null ? undefined : (JSON.parse(state) as ToSqliteState),
        keep: (now) => {
          connection.prepare("UPDATE book SET state = ?").run(JSON.stringify(now));
        },
      });
    });
    assert.deepEqual(countSqlite(connection), await countPostgres(query));
    await postgres.close();
    const back = await openSqliteQueue({ database, blobDir: path.join(dir, "second"), clock });
    assert.deepEqual(await seen(back, [...ids, late.id]), between);
    const more = await back.enqueue(newJob("waits"));
    assert.equal((await back.search({ limit: 1 })).jobs[0]?.id, more.id, "the newest");
    await back.close();
    database.close();
  });
});

/** Breaks off after each batch, and begins again. */
async function untilDone<T>(work: (signal: AbortSignal, stop: () => void) => Promise<T>): Promise<T> {
  for (;;) {
    const broken = new AbortController();
    try {
      return await work(broken.signal, () => broken.abort());
    } catch (error) {
      if (!broken.signal.aborted) throw error;
    }
  }
}
