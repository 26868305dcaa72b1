/** Partitions of final jobs that several platforms make and drop at once, while others write. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import type { Query } from "../../src/queue/postgres/connection.ts";
import { seqAt } from "../../src/queue/postgres/numbers.ts";
import { rollPartitions } from "../../src/queue/postgres/partitions.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { claimOne, openedQueue, postgresAt } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const DAY_MS = 24 * 3_600_000;
const PLATFORMS = 4;

describe("partitions of final jobs", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  /** A connection of another platform. */
  async function other(t: TestContext, url: string): Promise<Query> {
    const postgres = postgresAt(url);
    const client = await postgres.connect({ waitMaxMs: 0 });
    t.after(async () => {
      await client.end();
      await postgres.close();
    });
    return async (text, values = []) => (await client.query({ text, values: values as unknown[] })).rows;
  }

  const days = async (query: Query) =>
    (
      await query<{ name: string }>(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'done_jobs'::regclass ORDER BY 1",
      )
    ).map(({ name }) => name);

  test("platforms that make and drop the same days at once fail at none", async (t) => {
    const url = await server.database("same_days");
    await openedQueue(t, url);
    const queries = await Promise.all(Array.from({ length: PLATFORMS }, () => other(t, url)));
    const today = Date.now();
    for (let day = 2; day < 40; day += 2) {
      await Promise.all(queries.map((query) => rollPartitions(query, today + day * DAY_MS, seqAt)));
    }
    // What is in use for a moment is left for the next look.
    await eventually(async () => {
      await rollPartitions(queries[0]!, today + 40 * DAY_MS, seqAt);
      assert.equal((await days(queries[0]!)).length, 3);
    });
  });

  test("a backup that reads all tables keeps a day from being made, and no one else from reading and writing", async (t) => {
    const url = await server.database("backup");
    const queue = await openedQueue(t, url);
    const [backup, roller] = [await other(t, url), await other(t, url)];
    await backup("BEGIN");
    await backup("LOCK TABLE done_jobs IN ACCESS SHARE MODE");
    const later = Date.now() + 3 * DAY_MS;
    const before = await days(roller);
    await rollPartitions(roller, later, seqAt);
    assert.deepEqual(await days(roller), before);
    const { id } = await queue.enqueue(newJob(unique("endpoint")));
    assert.equal((await queue.cancel(id))?.state, "CANCELLED");
    await backup("COMMIT");
    await rollPartitions(roller, later, seqAt);
    assert.notDeepEqual(await days(roller), before);
  });

  test("a day whose last job ends just as it is dropped is not dropped, and holds nobody up", async (t) => {
    const url = await server.database("last_job");
    const queue = await openedQueue(t, url);
    const e = unique("endpoint");
    const { id } = await queue.enqueue(newJob(e));
    await queue.finish(await claimOne(queue, e), { state: "COMPLETED", output: Buffer.from("1") });
    const [writer, dropper] = [await other(t, url), await other(t, url)];
    const [, day] = await days(writer);
    const aDay = seqAt(Date.now() + DAY_MS) - seqAt(Date.now());
    await writer(`CREATE TEMP TABLE kept AS SELECT * FROM done_jobs`);
    await writer(`UPDATE kept SET seq = seq + ${aDay}`);
    await writer("DELETE FROM done_jobs");
    await writer("BEGIN");
    await writer("INSERT INTO done_jobs SELECT * FROM kept");
    const later = Date.now() + 3 * DAY_MS;
    await rollPartitions(dropper, later, seqAt);
    await writer("COMMIT");
    assert.equal((await queue.find(id))?.state, "COMPLETED");
    await rollPartitions(dropper, later, seqAt);
    assert.ok((await days(dropper)).includes(day!));
    await writer("DELETE FROM done_jobs");
    await rollPartitions(dropper, later, seqAt);
    assert.ok(!(await days(dropper)).includes(day!));
  });
});
