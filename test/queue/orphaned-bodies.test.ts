/** Bodies of the queue on PostgreSQL that no row names, on the disk and in a bucket. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import type { BodyStore } from "../../src/queue/bodies/body-store.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { S3BodyStore } from "../../src/queue/bodies/s3-body-store.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import { newJob } from "../conformance/queue.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { findS3, startS3 } from "../s3.ts";
import { claimOne, openedQueue } from "./open-postgres-queue.ts";

const found = await findPostgres();
const s3 = await findS3();
const skip = "missing" in found && found.missing;
const HOUR_MS = 3_600_000;
const large = (fill: string) => Buffer.from(JSON.stringify(fill.repeat(100_000)));

async function onDisk(t: TestContext): Promise<BodyStore> {
  const dir = mkdtempSync(join(tmpdir(), "svc-bodies-"));
  t.after(() => rmSync(dir, { recursive: true }));
  return DiskBodyStore.open(dir, false);
}

async function inBucket(t: TestContext): Promise<BodyStore> {
  const server = await startS3((s3 as { program: string }).program);
  const bucket = await Bucket.open({ ...server.settings, prefix: `${randomBytes(6).toString("hex")}/` });
  t.after(async () => {
    bucket.close();
    await server.stop();
  });
  return new S3BodyStore(bucket);
}

async function all(bodies: BodyStore): Promise<string[]> {
  const names: string[] = [];
  for await (const name of bodies.list(Date.UTC(2100, 0))) names.push(name);
  return names;
}

describe("bodies that no row names", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  for (const [place, open, lack] of [
    ["disk", onDisk, false],
    ["bucket", inBucket, "missing" in s3 && s3.missing],
  ] as const) {
    test(`are deleted after a day from the ${place}, and none that a job or an upload needs`, {
      skip: lack,
    }, async (t) => {
      const bodies = await open(t);
      const gate = Promise.withResolvers<void>();
      const put = Promise.withResolvers<void>();
      t.after(() => gate.resolve());
      let slow = false;
      const store: BodyStore = {
        put: async (name, bytes) => {
          await bodies.put(name, bytes);
          if (!slow) return;
          put.resolve();
          await gate.promise;
        },
        get: (name) => bodies.get(name),
        delete: (names) => bodies.delete(names),
        list: (before) => bodies.list(before),
      };
      const clock = { now: Date.UTC(2026, 2, 1, 12) };
      const url = await server.database(`orphans_${place}`);
      const queue = await openedQueue(t, url, { bodies: store, clock: () => clock.now, monotonic: () => clock.now });
      const kept = { retentionMs: 100 * HOUR_MS, ttlMs: 100 * HOUR_MS };
      const waits = await queue.enqueue(newJob("e", { ...kept, input: large("1"), lowPriority: true }));
      await queue.enqueue(newJob("e", { ...kept, id: `done-${place}`, input: large("2") }));
      const done = await claimOne(queue, "e");
      await queue.finish(done, { state: "COMPLETED", output: large("3") });
      await queue.enqueue(newJob("e", { ...kept, id: `runs-${place}` }));
      const runs = await claimOne(queue, "e");
      await queue.chunk(runs, large("4"));
      slow = true;
      const late = queue.enqueue(newJob("e", { ...kept, input: large("5") }));
      await put.promise;
      const named = await all(bodies);
      assert.equal(named.length, 5);
      await bodies.put("20260301/crashed/1.2", Buffer.from("{}"));
      await bodies.put("20260228/of_e/2.2", Buffer.from("{}"));

      await queue.sweep();
      assert.deepEqual((await all(bodies)).sort(), [...named, "20260301/crashed/1.2", "20260228/of_e/2.2"].sort());
      clock.now += 15 * HOUR_MS; // 3 o'clock on the next day: that of today is not a day old.
      await queue.sweep();
      assert.deepEqual((await all(bodies)).sort(), [...named, "20260301/crashed/1.2"].sort());
      clock.now += 24 * HOUR_MS;
      await queue.sweep();
      assert.deepEqual((await all(bodies)).sort(), [...named].sort());
      // Another platform takes over: what it has from the rows it keeps.
      gate.resolve();
      const { id } = await late;
      slow = false;
      const second = await openedQueue(t, url, { bodies: store, clock: () => clock.now, monotonic: () => clock.now });
      await second.sweep();
      assert.deepEqual(await second.input(id), large("5"));
      assert.deepEqual(await second.input(waits.id), large("1"));
      assert.deepEqual((await second.find(done.jobId))?.output, large("3"));
      assert.deepEqual((await second.takeChunks(runs.jobId, 0))?.chunks, [large("4")]);
    });
  }
});
