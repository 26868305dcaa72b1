/** A standby took over that lacks the end of what was written: an owner that has nothing to write notices. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { databaseNotices } from "../../src/server/state.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { claimOne, openedQueue } from "./open-postgres-queue.ts";
import { has, openReplica } from "./replicas.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const COMPLETED = { state: "COMPLETED", output: Buffer.from("1") } as const;

describe("a database that lost the end of what was written", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  /** As the rows are on a standby that has the batches up to this one: neither that a job was handed out, nor the other. */
  async function lose(database: string, after: string, handedOut: string, other: string): Promise<void> {
    await server.sql(
      `BEGIN;
       UPDATE open_jobs SET state = 0, fence = 0, worker_id = '', started_at = NULL WHERE id = '${handedOut}';
       DELETE FROM open_jobs WHERE id = '${other}';
       UPDATE queue_endpoints SET in_queue = 1 WHERE id <> 'other';
       DELETE FROM queue_endpoints WHERE id = 'other';
       DELETE FROM queue_journal WHERE n > ${after};
       COMMIT`,
      database,
    );
  }

  function watched(url: string): { readonly postgres: Postgres; readonly told: () => number } {
    let told = 0;
    const access = { url: parseDatabaseUrl(url), passwordFile: undefined };
    const lostTail = () => {
      told++;
    };
    return { postgres: new Postgres({ access, connectionsMax: 1, lostTail }), told: () => told };
  }

  async function finds(t: TestContext, queue: JobQueue, database: string, postgres: Postgres): Promise<void> {
    t.after(() => postgres.close());
    const e = unique("endpoint");
    const { id } = await queue.enqueue(newJob(e));
    const kept = await server.sql("SELECT max(n) FROM queue_journal", database);
    const gone = await claimOne(queue, e);
    assert.equal(gone.jobId, id);
    const waits = claimOne(queue, e, "w2");
    const { id: missing } = await queue.enqueue(newJob("other"));
    const answered = queue.wait(missing, 600_000);
    await lose(database, kept, id, missing);
    // Nobody calls anything: what was handed out in the lost end is handed out again, and counted as it is.
    const again = await waits;
    assert.equal(again.jobId, id);
    assert.equal(await queue.finish(gone, COMPLETED), false, "that hand-out was never stored");
    assert.equal(await answered, undefined, "nobody waits for a job that is lost");
    assert.equal(await queue.finish(again, COMPLETED), true);
    assert.equal((await queue.counts(e)).completed, 1);
    assert.match(databaseNotices(postgres).join(), /lacks the end of what it had stored/);
    assert.deepEqual(databaseNotices(postgres, performance.now() + 2 * 24 * 3_600_000), []);
  }

  test("a platform that is alone hands out again what was lost with it, and says so once", async (t) => {
    const url = await server.database("alone");
    const { postgres, told } = watched(url);
    await finds(t, await openedQueue(t, url, { postgres }), "alone", postgres);
    assert.equal(told(), 1);
  });

  test("so does each of several replicas", async (t) => {
    const url = await server.database("several");
    const { postgres, told } = watched(url);
    const first = await openReplica(t, url, "a", { postgres });
    await has(first, 256);
    await openReplica(t, url, "b");
    await finds(t, first.queue, "several", postgres);
    assert.equal(told(), 1);
  });

  test("one whose shards were all taken over says nothing of a lost end", async (t) => {
    const url = await server.database("taken");
    const { postgres, told } = watched(url);
    const first = await openReplica(t, url, "a", { postgres });
    t.after(() => postgres.close());
    await has(first, 256);
    const e = unique("endpoint");
    await first.queue.enqueue(newJob(e));
    const second = await openReplica(t, url, "b");
    await first.queue.shards.look();
    await first.queue.shards.drain();
    await has(second, 256);
    await second.queue.enqueue(newJob(e));
    for (let n = 0; n < 3; n++) await first.queue.shards.look();
    await eventually(() => assert.deepEqual(first.queue.shards.ownership.in("FREE").length, 256));
    assert.equal(told(), 0);
  });
});
