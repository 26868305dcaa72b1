/** A queue on PostgreSQL whose shards another has taken, and that does not know it yet: what it deletes. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { DELETE_BATCH_ROWS } from "../../src/domain/limits.ts";
import type { BodyStore } from "../../src/queue/bodies/body-store.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { claimOne, openedQueue } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const DAY_MS = 24 * 3_600_000;
const large = (fill: string) => Buffer.from(JSON.stringify(fill.repeat(100_000)));

describe("a queue that lost its shards", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  /** Two on one database and one place for bodies: the second takes the shards when it is opened. */
  async function two(t: TestContext, name: string) {
    const url = await server.database(name);
    const dir = mkdtempSync(join(tmpdir(), "svc-bodies-"));
    t.after(() => rmSync(dir, { recursive: true }));
    const bodies: BodyStore = await DiskBodyStore.open(dir, false);
    const clock = { now: Date.now() };
    const first = await openedQueue(t, url, { bodies, clock: () => clock.now });
    return { first, clock, second: () => openedQueue(t, url, { bodies, clock: Date.now }) };
  }

  async function finished(queue: JobQueue, e: string, output: Buffer): Promise<string> {
    const { id } = await queue.enqueue(newJob(e, { input: large("i"), retentionMs: 60_000 }));
    await queue.finish(await claimOne(queue, e), { state: "COMPLETED", output });
    return id;
  }

  test("it deletes no body of an expired job, and its sweep ends", async (t) => {
    const { first, clock, second } = await two(t, "expired");
    const e = unique("endpoint");
    const id = await finished(first, e, large("o"));
    for (let n = 0; n < DELETE_BATCH_ROWS; n++) await finished(first, e, Buffer.from("1"));
    const other = await second();
    clock.now += 7 * DAY_MS;
    // It may notice on the way.
    await first.sweep().catch(() => {});
    assert.deepEqual((await other.find(id))?.output, large("o"));
    assert.deepEqual(Buffer.from((await other.input(id))!), large("i"));
  });

  test("it deletes no body of an endpoint that it was to forget", async (t) => {
    const { first, second } = await two(t, "forgotten");
    const e = unique("endpoint");
    const id = await finished(first, e, large("o"));
    const other = await second();
    await first.forget(e).catch(() => {});
    assert.deepEqual((await other.find(id))?.output, large("o"));
  });

  test("chunks that a caller wanted to take from it are there for the next", async (t) => {
    const { first, second } = await two(t, "chunks");
    const e = unique("endpoint");
    const { id } = await first.enqueue(newJob(e));
    const job = await claimOne(first, e);
    await first.chunk(job, large("c"));
    const other = await second();
    await assert.rejects(first.takeChunks(id, 0));
    const taken = await other.takeChunks(id, 0);
    assert.deepEqual(taken?.chunks.map(Buffer.from), [large("c")]);
  });
});
