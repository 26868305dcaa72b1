import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { INLINE_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { openSqlite } from "../../src/lib/sqlite.ts";
import { migrateQueue, QUEUE_STEPS } from "../../src/queue/sqlite/schema.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";

import { newJob } from "../conformance/queue.ts";

const NOW = 1_700_000_000_000;
const text = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString("utf8");

for (let version = 1; version < QUEUE_STEPS; version++) {
  test(`what version ${version} of the queue's tables holds is there in the newest one`, async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), "svc-queue-"));
    const database = openSqlite(path.join(dir, "queue.db"), "normal");
    t.after(() => {
      database.close();
      rmSync(dir, { recursive: true });
    });
    const { connection } = database;
    migrateQueue(connection, version);
    const large = Buffer.alloc(INLINE_BODY_MAX_BYTES + 1, "l");
    const digest = createHash("sha256").update(large).digest("hex");
    const folder = path.join(dir, "blobs", digest.slice(0, 2));
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, digest), large);
    const hook = "https://receiver.test/hook";
    connection.exec(`
      INSERT INTO queue_endpoints (number, id, completed, failed, retried) VALUES (1, 'e', 5, 2, 1);
      INSERT INTO jobs (seq, id, endpoint, state, low_priority, fence, worker_id, created_at, started_at, finished_at,
        lease_until, expires_at, ttl_ms, retention_ms, execution_timeout_ms, method, webhook, idempotency_key, input, output)
      VALUES (1, 'waits', 1, 0, 1, 0, '', ${NOW}, NULL, NULL, NULL, ${NOW + 60_000}, 60000, 1000, 1000, 'm', '', 'k', x'31', NULL),
             (2, 'runs', 1, 1, 0, 7, 'w', ${NOW}, ${NOW}, NULL, ${NOW - 1}, ${NOW + 60_000}, 60000, 1000, 1000, '', '', NULL, x'32', NULL),
             (3, 'done', 1, 2, 0, 1, 'w', ${NOW}, ${NOW}, ${NOW + 1}, NULL, ${NOW + 60_000}, 60000, 1000, 1000, '', '${hook}', NULL, '${digest}${version > 5 ? `.${large.length}` : ""}', x'34');
    `);
    const bytes = version > 4 ? "3, " : "";
    connection.exec(`INSERT INTO chunks (seq, job, ${bytes && "bytes, "}body)
      VALUES (41, 2, ${bytes}CAST('"a"' AS BLOB)), (42, 2, ${bytes}CAST('"b"' AS BLOB))`);
    if (version > 1)
      connection.exec(`INSERT INTO webhooks (id, job, host, due_at) VALUES (9, 3, 'receiver.test', ${NOW})`);

    const bounds = { bodiesKeptMax: 2 * INLINE_BODY_MAX_BYTES };
    const queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock: () => NOW, bounds });
    assert.deepEqual(await queue.counts("e"), {
      inQueue: 1,
      inQueueLowPriority: 1,
      delayed: 0,
      inProgress: 1,
      inProgressLowPriority: 0,
      completed: 6,
      failed: 2,
      retried: 1,
      oldestQueuedAt: NOW,
    });
    assert.equal(text((await queue.find("done"))?.output), "4");
    await queue.sweep();
    assert.ok(large.equals((await queue.input("done"))!), "its file is there");
    const other = newJob("e", { input: Buffer.alloc(INLINE_BODY_MAX_BYTES + 1, "m") });
    await assert.rejects(queue.enqueue(other), { code: "BODIES_FULL" }, "it counts");
    assert.deepEqual(
      (await queue.dueDeliveries(10, [])).map(({ id, url }) => [id, url]),
      version > 1 ? [[9, hook]] : [],
    );
    assert.equal(await queue.expireLeases(), 0, "a lease of before says nothing");
    const claim = { jobId: "runs", fence: 7 };
    await queue.chunk(claim, Buffer.from('"c"'));
    const read = (await queue.readChunks("runs", 0, 0))!;
    assert.deepEqual(
      [read.chunks.map(text), read.numbers],
      [
        ['"a"', '"b"', '"c"'],
        [41, 42, 43],
      ],
    );
    assert.equal(await queue.finish(claim, { state: "COMPLETED", output: Buffer.from("1") }), true);
    const [next] = await queue.claim("e", "w", 1, new AbortController().signal);
    assert.deepEqual([next?.jobId, next?.method, text(next?.input)], ["waits", "m", "1"]);
    await queue.close();
  });
}
