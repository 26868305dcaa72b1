/** All that the queue asks of PostgreSQL while it works goes by an index, however much lies in the tables. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { openPostgresQueue } from "../../src/queue/postgres-queue.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { newJob } from "../conformance/queue.ts";
import { statementsOf, wholeReads } from "../explained.ts";
import { findPostgres, startPostgres } from "../postgres.ts";
import { claimOne, postgresAt } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const ROWS = 20_000;
const ENDPOINTS = 100;
const LATER = 9_000_000_000_000;
/** Of PostgreSQL itself, a row an endpoint or shard, one a batch that goes soon, or the partition of a day that has just begun. */
const SMALL = /^(pg_.*|queue_shards|queue_endpoints|queue_journal|queue_schema|job_schedules|replicas|done_jobs_\d+)$/;
const OUTPUT = Buffer.from("1");

describe("the queue at work", { skip }, () => {
  test("reads no large table as a whole, whatever it is asked for", async (t) => {
    const server = await startPostgres((found as { bin: string }).bin);
    t.after(() => server.stop());
    const dir = mkdtempSync(join(tmpdir(), "svc-queue-"));
    t.after(() => rmSync(dir, { recursive: true }));
    const postgres = postgresAt(server.url);
    const queue = await openPostgresQueue({ postgres, bodies: await DiskBodyStore.open(dir, false), clock: Date.now });
    t.after(async () => {
      await queue.close();
      await postgres.close();
    });
    for (let n = 1; n <= ENDPOINTS; n++) await queue.enqueue(newJob(`full-${n}`));
    const { rows: made } = await postgres.query<{ number: number }>("SELECT number FROM queue_endpoints");
    const endpoint = `(ARRAY[${made.map(({ number }) => number).join()}])[1 + n % ${ENDPOINTS}]`;
    const job = `0, 1, 0, 0, 'w' || n % 50, n, n, ${LATER}, NULL, ${LATER}, 1, 1, '', '', '', '1', NULL, NULL, NULL`;
    const rows = `FROM generate_series(1, ${ROWS}) n`;
    for (const fill of [
      `INSERT INTO open_jobs SELECT n, 'open-' || n, ${endpoint}, 0, ${job} ${rows}`,
      `INSERT INTO done_jobs SELECT ${ROWS} + n, 'done-' || n, ${endpoint}, 2 + n % 4, ${job}, n, NULL, NULL ${rows}`,
      `INSERT INTO expired_jobs SELECT 2 * ${ROWS} + n, 'gone-' || n, ${endpoint}, 2, 0, 0, 'w', n, n, n, ${LATER}, '' ${rows}`,
      `INSERT INTO job_chunks SELECT n / 10, n, 1, '1', NULL ${rows}`,
      `INSERT INTO job_webhooks SELECT n, n, 'done-' || n, 'https://r.test', 'host' || n % 100, 0, ${LATER} + n ${rows}`,
      `INSERT INTO job_keys SELECT ${endpoint}, 'key' || n, 'open-' || n ${rows}`,
      "ANALYZE",
    ]) {
      await postgres.query(fill);
    }
    const statements = await statementsOf(() => work(queue));
    assert.ok(statements.size > 40, `${statements.size} statements`);
    assert.deepEqual(await wholeReads(postgres, statements, (table) => SMALL.test(table)), []);
  });
});

/** Something of everything. */
async function work(queue: JobQueue): Promise<void> {
  const e = "at-work";
  const [first, second, third, fourth] = [
    newJob(e, { idempotencyKey: "k", webhook: "https://r.test/" }),
    newJob(e),
    newJob(e, { lowPriority: true }),
    newJob(e),
  ];
  for (const job of [first, second, third, fourth]) await queue.enqueue(job);
  await queue.enqueue(newJob(e, { idempotencyKey: "k" }));
  const [one, two] = [await claimOne(queue, e), await claimOne(queue, e)];
  await queue.chunk(one, OUTPUT);
  await queue.progress(two, OUTPUT);
  await queue.takeChunks(one.jobId, 0);
  await queue.readChunks(one.jobId, 0, 0);
  await queue.renew([one, two]);
  await queue.finish(one, { state: "COMPLETED", output: OUTPUT });
  await queue.release(two, "lost");
  const again = await claimOne(queue, e);
  await queue.finish(again, { state: "FAILED", error: "x" });
  await queue.retry(again.jobId);
  await queue.cancel(third.id);
  await queue.cancel((await claimOne(queue, e)).jobId);

  for (const id of ["open-7", "done-7", "gone-7", "nobody's", one.jobId]) {
    await queue.find(id);
    await queue.findExpired(id);
    await queue.input(id);
    await queue.readChunks(id, 0, 0);
  }
  await queue.retry("done-3");
  await queue.cancel("open-9");
  for (const state of [undefined, "IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED"] as const) {
    const options = { limit: 10, ...(state && { state }) };
    const listed = await queue.list("full-1", options);
    await queue.list("full-1", { ...options, expired: true, idStart: "done-1" });
    if (listed.length > 0) await queue.list("full-1", { ...options, before: listed.at(-1)!.id });
    const states = state && { states: [state] };
    for (const endpointIds of [["full-1"], ["full-1", "full-2"], undefined]) {
      const of = { ...states, ...(endpointIds && { endpointIds }), limit: 10 };
      const { next } = await queue.search(of);
      if (next !== undefined) await queue.search({ ...of, before: next });
      await queue.search({ ...of, idStart: "done-1" });
      await queue.search({ ...of, from: 10, to: 1_000 });
    }
  }
  await queue.search({ endpointIds: ["full-1"], error: () => true, limit: 10 });
  await queue.counts("full-1");
  await queue.claimsOf("w1");
  await queue.wait("done-1", 0);

  const [delivery] = await queue.dueDeliveries(100, []);
  await queue.dueDeliveries(100, ["host1", "r.test"]);
  await queue.settleDelivery(delivery!.id, 1);
  await queue.settleDelivery(delivery!.id, null);
  await queue.setSchedule(e, { spec: "* * * * *", until: 1, paused: false });
  await queue.scheduleOf(e);
  await queue.tick(e, 2, 2, newJob(e));

  await queue.failQueued(e, "w1", "x");
  await queue.failAwaited(e, "w1", "x");
  await queue.graceLeases(1);
  await queue.expireLeases();
  await queue.wakeDelayed();
  await queue.sweep();
  await queue.endpointIds();
  await queue.enqueue(newJob(e));
  await queue.purge(e);
  await queue.forget(e);
}
