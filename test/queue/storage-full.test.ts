/** The queue on a disk that is full for a while: SQLite is given a number of pages instead, which fails in the same way. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { globSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { INLINE_BODY_MAX_BYTES, LEASE_MS } from "../../src/domain/limits.ts";
import { storageNotice } from "../../src/domain/storage.ts";
import { openSqlite } from "../../src/lib/sqlite.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { DiskWatch } from "../../src/server/disk-watch.ts";
import { newJob } from "../conformance/queue.ts";
import { smallDisk, whyNoSmallDisk } from "../small-disk.ts";

const FULL = { code: "STORAGE_FULL", status: 507 };

async function queueOnSmallDisk(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), "svc-full-"));
  const database = openSqlite(join(dir, "queue.db"), "normal");
  const said: string[] = [];
  let told = () => {};
  // Not there until there is room again, so that the watch finds none before.
  const disk = join(dir, "disk");
  const storage = new DiskWatch(disk, {
    began: (lack) => said.push(`began ${lack}`),
    ended: () => {
      said.push("ended");
      told();
    },
  });
  const clock = { now: 1_700_000_000_000 };
  const blobDir = join(dir, "blobs");
  const queue = await openSqliteQueue({ database, blobDir, clock: () => clock.now, storage });
  t.after(async () => {
    storage.close();
    await queue.close();
    database.close();
    rmSync(dir, { recursive: true });
  });
  const { connection } = database;
  const pages = () => (connection.prepare("PRAGMA page_count").get() as { page_count: number }).page_count;
  return {
    queue,
    said,
    clock,
    /** Nothing more fits; what is there is filled up until a write fails. */
    async fill() {
      connection.exec(`PRAGMA max_page_count = ${pages() + 2}`);
      await assert.rejects(async () => {
        for (;;) await queue.enqueue(newJob("filler", { input: Buffer.alloc(4000, "1") }));
      }, FULL);
    },
    blobDir,
    /** Resolves when the queue has noticed. */
    makeRoom: (how = () => {}) =>
      new Promise<void>((resolve) => {
        told = resolve;
        connection.exec("PRAGMA max_page_count = 1000000");
        mkdirSync(disk);
        how();
      }),
  };
}

async function claimed(queue: JobQueue, endpoint: string) {
  const [job] = await queue.claim(endpoint, "w-1", 1, new AbortController().signal);
  return job!;
}

test("on a full disk new jobs are refused, reads go on, and what workers bring is stored when there is room", async (t) => {
  const { queue, fill, makeRoom, said, clock } = await queueOnSmallDisk(t);
  for (const id of ["done", "lost", "slow"]) await queue.enqueue(newJob("e", { id }));
  const done = await claimed(queue, "e");
  const lost = await claimed(queue, "e");
  const slow = await claimed(queue, "e");
  await fill();

  await assert.rejects(queue.enqueue(newJob("e")), FULL);
  await assert.rejects(queue.cancel("slow"), FULL);
  assert.equal((await queue.find("done"))?.state, "IN_PROGRESS");
  assert.equal((await queue.counts("e")).inProgress, 3);
  const large = Buffer.from(JSON.stringify("x".repeat(200_000)));
  const order: string[] = [];
  const note = (what: string) => () => order.push(what);
  const stored = [
    queue.chunk(slow, Buffer.from("1")).then(note("chunk")),
    queue.finish(slow, { state: "TIMED_OUT", error: "too slow" }).then(note("timed out")),
    queue.finish(done, { state: "COMPLETED", output: large }).then(note("result")),
    queue.release(lost, "lost", "killed").then(note("lost")),
  ];
  const waits = queue.claim("e", "w-2", 1, new AbortController().signal);
  assert.deepEqual(await queue.renew([done, lost, slow]), [], "nobody loses a job for that");
  clock.now += 2 * LEASE_MS;
  assert.equal(await queue.expireLeases(), 0);
  assert.deepEqual([...order, ...said], ["began room"]);

  await makeRoom();
  await Promise.all(stored);
  assert.deepEqual(said, ["began room", "ended"]);
  assert.deepEqual((await queue.takeChunks("slow", 0))?.chunks, [new Uint8Array([49])], "what it said before it ended");
  assert.equal((await queue.find("done"))?.state, "COMPLETED");
  assert.deepEqual((await queue.find("done"))?.output, large);
  assert.equal((await queue.find("slow"))?.state, "TIMED_OUT");
  assert.deepEqual(
    (await waits).map(({ jobId, fence }) => [jobId, fence > lost.fence]),
    [["lost", true]],
    "a claim that waited meanwhile gets what came back",
  );
  assert.equal((await queue.enqueue(newJob("e"))).created, true);
});

test("a job that was handed out in the batch that could not be stored was not, and its claim waits on", async (t) => {
  const { queue, fill, makeRoom } = await queueOnSmallDisk(t);
  await queue.enqueue(newJob("e", { id: "before" }));
  await claimed(queue, "e");
  const leave = new AbortController();
  const waits = queue.claim("e", "w-2", 1, leave.signal);
  const gone = queue.claim("e", "w-3", 1, AbortSignal.abort());
  await fill();
  const counts = await queue.counts("e");
  assert.deepEqual([counts.inQueue, counts.inProgress], [0, 1]);
  assert.deepEqual(await gone, []);
  await makeRoom();
  await queue.enqueue(newJob("e", { id: "after" }));
  assert.deepEqual(
    (await waits).map(({ jobId }) => jobId),
    ["after"],
  );
  leave.abort();
});

test("leases begin anew when there is room again: nobody could renew them", async (t) => {
  const { queue, fill, makeRoom, clock } = await queueOnSmallDisk(t);
  await queue.enqueue(newJob("e", { id: "runs" }));
  const job = await claimed(queue, "e");
  await fill();
  clock.now += 2 * LEASE_MS;
  await makeRoom();
  assert.equal(await queue.expireLeases(), 0);
  assert.equal((await queue.find("runs"))?.state, "IN_PROGRESS");
  assert.equal(await queue.finish(job, { state: "COMPLETED", output: Buffer.from("1") }), true);
});

test("a folder of bodies that is away costs no result and no job; one that was removed is made again", async (t) => {
  const { queue, said, makeRoom, blobDir } = await queueOnSmallDisk(t);
  const large = (fill: string) => Buffer.alloc(INLINE_BODY_MAX_BYTES + 1, fill);
  await queue.enqueue(newJob("e", { input: large("i") }));
  rmSync(blobDir, { recursive: true });
  await queue.enqueue(newJob("waits", { input: large("w") }));
  await queue.enqueue(newJob("runs", { id: "runs" }));
  const job = await claimed(queue, "runs");

  renameSync(blobDir, `${blobDir}.away`);
  writeFileSync(blobDir, "keeps out root, too");
  const finished = queue.finish(job, { state: "COMPLETED", output: large("o") });
  await assert.rejects(queue.enqueue(newJob("other", { input: large("k") })), FULL);
  assert.deepEqual(said, ["began disk"]);
  const waits = claimed(queue, "waits");
  await makeRoom(() => {
    rmSync(blobDir);
    renameSync(`${blobDir}.away`, blobDir);
  });
  assert.equal(await finished, true);
  assert.deepEqual((await queue.find("runs"))?.output, large("o"));
  assert.deepEqual((await waits).input, large("w"));
  await queue.enqueue(newJob("other", { input: large("k") }));
  assert.deepEqual(said, ["began disk", "ended"]);
});

test("a file that cannot be read fails its own job alone", async (t) => {
  const { queue, said, blobDir } = await queueOnSmallDisk(t);
  const large = (fill: string) => Buffer.alloc(INLINE_BODY_MAX_BYTES + 1, fill);
  await queue.enqueue(newJob("e", { id: "bad", input: large("b") }));
  const [file] = globSync(join(blobDir, "??", "*"));
  rmSync(file!);
  mkdirSync(file!); // Where a disk has a bad block it is another error, at the same call.
  await queue.enqueue(newJob("e", { id: "good", input: large("g") }));
  assert.equal((await claimed(queue, "e")).jobId, "good");
  const bad = await queue.find("bad");
  assert.equal(bad?.state, "FAILED");
  assert.match(String(bad.error), /input/);
  assert.deepEqual(said, []);
});

test("a disk that cannot be written is not called full, and what waits is written once it can be", {
  skip: whyNoSmallDisk,
}, async (t) => {
  const { disk, fill, makeRoom } = smallDisk(t, 16);
  const remount = (how: string) => execFileSync("mount", ["-o", `remount,${how}`, disk]);
  const said: string[] = [];
  const began = new EventEmitter();
  const storage = new DiskWatch(disk, {
    began: (lack) => {
      said.push(storageNotice(lack));
      began.emit("began");
    },
    ended: () => said.push("ended"),
  });
  t.after(() => storage.close());
  const write = (name: string) => storage.keep(async () => writeFileSync(join(disk, name), Buffer.alloc(1 << 20)));
  for (const [name, lack, end, words] of [
    [
      "first",
      () => remount("ro"),
      () => remount("rw"),
      /^The platform's disk cannot be written: .* read-only or broken/,
    ],
    ["second", fill, makeRoom, /^The platform's disk is full: /],
  ] as const) {
    lack();
    const noticed = once(began, "began");
    const written = write(name);
    await noticed;
    assert.match(said.splice(0)[0]!, words);
    end();
    await written;
    assert.deepEqual(said.splice(0), ["ended"]);
  }
  // SQLite's failed write, of which it says no more.
  fill();
  assert.equal(storage.noticed(Object.assign(new Error("disk I/O error"), { errcode: 778 })), "room");
});
