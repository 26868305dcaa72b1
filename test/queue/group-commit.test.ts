import assert from "node:assert/strict";
import { test } from "node:test";
import { GroupCommit } from "../../src/lib/group-commit.ts";
import { openSqlite, SqliteDatabase } from "../../src/lib/sqlite.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue } from "./open-queue.ts";

function open(hooks: { beforeCommit?: () => void; rolledBack?: () => void } = {}) {
  const database = openSqlite(":memory:", "normal");
  database.connection.exec("CREATE TABLE t (n INTEGER UNIQUE)");
  const insert = database.connection.prepare("INSERT INTO t VALUES (?)");
  const commit = new GroupCommit(database, {
    beforeCommit: () => hooks.beforeCommit?.(),
    afterCommit: () => {},
    rolledBack: () => hooks.rolledBack?.(),
  });
  const rows = () =>
    (database.connection.prepare("SELECT n FROM t ORDER BY n").all() as { n: number }[]).map((r) => r.n);
  return { database, commit, insert, rows };
}

test("work that breaks a constraint is rejected alone", async () => {
  const { commit, insert, rows } = open();
  const settled = await Promise.allSettled([1, 1, 2].map((n) => commit.run(() => insert.run(n))));
  assert.deepEqual(
    settled.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.deepEqual(rows(), [1, 2]);
});

test("when the commit fails nothing counts as done, and the next batch works", async () => {
  let fails = true;
  let rolledBack = 0;
  const { commit, insert, rows } = open({
    beforeCommit() {
      if (fails) throw new Error("disk full");
    },
    rolledBack: () => rolledBack++,
  });
  const settled = await Promise.allSettled([1, 2].map((n) => commit.run(() => insert.run(n))));
  assert.ok(settled.every(({ status }) => status === "rejected"));
  assert.deepEqual([rows(), rolledBack], [[], 1]);
  fails = false;
  await commit.run(() => insert.run(3));
  assert.deepEqual(rows(), [3]);
});

test("when rolling back fails too the work is rejected all the same, and it is made up for before any other work", async () => {
  let failures = 2;
  const order: string[] = [];
  const { commit, insert, rows } = open({
    beforeCommit() {
      if (failures-- > 0) throw new Error("disk full");
    },
    rolledBack() {
      order.push("rolled back");
      if (order.length === 1) throw new Error("cannot be read");
    },
  });
  await assert.rejects(
    commit.run(() => insert.run(1)),
    /disk full/,
  );
  await assert.rejects(
    commit.run(() => {
      order.push("work");
      insert.run(2);
    }),
    /disk full/,
  );
  assert.deepEqual(order, ["rolled back", "rolled back", "work", "rolled back"]);
  await commit.run(() => insert.run(3));
  assert.deepEqual(rows(), [3]);
});

test("a queue that closes while somebody holds the connection ends when its last work is committed", async (t) => {
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const { queue, database } = under;
  await database.lock();
  const job = newJob("e");
  let accepted = false;
  const last = queue.enqueue(job).then(() => {
    accepted = true;
  });
  const closing = queue.close();
  let acceptedFirst = false;
  const closed = closing.then(() => {
    acceptedFirst = accepted;
  });
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  database.unlock();
  await Promise.all([closed, last]);
  assert.ok(acceptedFirst);
  await under.reopen();
  assert.equal((await under.queue.find(job.id))?.state, "IN_QUEUE");
});

test("after a batch that failed the queue knows what its rows say", async () => {
  const clock = { now: 1_700_000_000_000 };
  const under = await openTestQueue(clock);
  try {
    const { queue, database } = under;
    const kept = newJob("e");
    await queue.enqueue(kept);
    const before = await queue.counts("e");
    // SQLite refuses to grow the file: the same error as a full disk.
    const { page_count: pages } = database.connection.prepare("PRAGMA page_count").get() as { page_count: number };
    database.connection.exec(`PRAGMA max_page_count = ${pages}`);
    const waiting = queue.claim("other", "w", 1, new AbortController().signal);
    const input = Buffer.alloc(60_000);
    const results = await Promise.allSettled([
      queue.enqueue(newJob("e", { input })),
      queue.enqueue(newJob("e", { input })),
      queue.cancel(kept.id),
    ]);
    assert.ok(results.every(({ status }) => status === "rejected"));
    assert.deepEqual(await queue.counts("e"), before);
    database.connection.exec("PRAGMA max_page_count = 1000000");
    const other = newJob("other");
    await queue.enqueue(other);
    assert.equal((await waiting)[0]?.jobId, other.id);
    assert.equal((await queue.claim("e", "w", 1, new AbortController().signal))[0]?.jobId, kept.id);
  } finally {
    await under.close();
  }
});

test("a claim that was refused because its transaction could not begin gets no job any more", async (t) => {
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const { queue, database } = under;
  const never = new AbortController().signal;
  const { id } = await queue.enqueue(newJob("e"));
  // One inside another: SQLite refuses to begin.
  database.connection.exec("BEGIN");
  await assert.rejects(queue.claim("e", "refused", 1, never));
  const jobs = await queue.claim("e", "w", 1, never);
  assert.deepEqual(
    jobs.map(({ jobId }) => jobId),
    [id],
  );
  assert.equal((await queue.find(id))?.workerId, "w");
});

test("the connection is given in the order it was asked for", async () => {
  const { connection } = openSqlite(":memory:", "normal");
  const database = new SqliteDatabase(connection, "normal");
  const order: string[] = [];
  await database.lock();
  database.whenFree(() => order.push("first"));
  const second = database.lock().then(() => order.push("second"));
  database.whenFree(() => order.push("third"));
  assert.deepEqual(order, []);
  database.unlock();
  await second;
  assert.deepEqual(order, ["first", "second"]);
  database.unlock();
  assert.deepEqual(order, ["first", "second", "third"]);
});
