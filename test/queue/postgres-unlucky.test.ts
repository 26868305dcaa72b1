/** The queue on a PostgreSQL that is there and does not do as it is asked: full, impatient, without its standby. */
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { LEASE_MS } from "../../src/domain/limits.ts";
import { DiskWatch } from "../../src/server/disk-watch.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, serverUser, startPostgres } from "../postgres.ts";
import { smallDisk, whyNoSmallDisk } from "../small-disk.ts";
import { claimOne, openedQueue, postgresAt } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const OUTPUT = Buffer.from('{"ok":true}');
const FULL = { code: "STORAGE_FULL", status: 507, message: /database has no room/ };
const never = new AbortController().signal;

describe("the job queue on a PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  /** What the platform's connections to the database wait for, one "pid|event" each. */
  const waiting = async (database: string, event: string) =>
    (
      await server.sql(
        `SELECT pid FROM pg_stat_activity WHERE datname = '${database}' AND usename = 'svc' AND wait_event ~ '${event}'`,
      )
    )
      .split("\n")
      .filter((pid) => pid !== "");

  test("whose disk is full refuses new jobs, reads on, and has what workers bring when there is room", {
    skip: whyNoSmallDisk,
  }, async (t) => {
    const { disk, fill, makeRoom, before } = smallDisk(t, 64, serverUser().uid);
    await server.sql(`CREATE TABLESPACE small LOCATION '${disk}'`);
    await server.sql("CREATE DATABASE full_disk OWNER svc TABLESPACE small");
    before(async () => {
      await server.sql("DROP DATABASE full_disk WITH (FORCE)");
      await server.sql("DROP TABLESPACE small");
    });
    const url = server.url.replace(/svc$/, "full_disk");
    const probe = postgresAt(url);
    const said: string[] = [];
    const storage = new DiskWatch(tmpdir(), {
      began: (lack) => said.push(`began ${lack}`),
      ended: () => said.push("ended"),
      tryDatabase: () => probe.tryRoom(),
    });
    const clock = { now: 1_700_000_000_000 };
    const queue = await openedQueue(t, url, { storage, monotonic: () => clock.now });
    t.after(async () => {
      storage.close();
      await probe.close();
    });
    for (const id of ["done", "lost"]) await queue.enqueue(newJob("e", { id }));
    const done = await claimOne(queue, "e");
    const lost = await claimOne(queue, "e");
    fill();
    const accepted: string[] = [];
    await assert.rejects(async () => {
      for (;;) {
        const { id } = await queue.enqueue(newJob("filler", { input: Buffer.alloc(8_000, "1") }));
        accepted.push(id);
      }
    }, FULL);
    await assert.rejects(queue.enqueue(newJob("e")), FULL);
    await assert.rejects(queue.cancel("done"), FULL);
    assert.equal((await queue.find("done"))?.state, "IN_PROGRESS");
    assert.equal((await queue.counts("e")).inProgress, 2);
    const large = Buffer.from(JSON.stringify("x".repeat(60_000)));
    const stored: string[] = [];
    const results = [
      queue.finish(done, { state: "COMPLETED", output: large }).then(() => stored.push("result")),
      queue.release(lost, "lost", "killed").then(() => stored.push("lost")),
    ];
    const waits = queue.claim("e", "w-2", 1, never);
    assert.deepEqual(await queue.renew([done, lost]), [], "nobody loses a job for that");
    clock.now += 2 * LEASE_MS;
    assert.equal(await queue.expireLeases(), 0);
    assert.deepEqual([...stored, ...said], ["began database"]);

    makeRoom();
    await Promise.all(results);
    assert.deepEqual(said, ["began database", "ended"]);
    assert.deepEqual((await queue.find("done"))?.output, large);
    assert.deepEqual(
      (await waits).map(({ jobId }) => jobId),
      ["lost"],
    );
    for (const id of accepted) assert.equal((await queue.find(id))?.state, "IN_QUEUE");
    assert.equal((await queue.enqueue(newJob("e"))).created, true);
    assert.equal(await server.sql("SELECT to_regclass('svc_room_probe') IS NULL", "full_disk"), "t");
  });

  test("whose disk for its write-ahead log is full, and which ends of it, loses nothing that was accepted, and takes what waited when it is back", {
    skip: whyNoSmallDisk,
  }, async (t) => {
    const { disk, fill, makeRoom, before } = smallDisk(t, 64, serverUser().uid);
    const own = await startPostgres((found as { bin: string }).bin, {
      durable: true,
      walDir: path.join(disk, "wal"),
      settings: { restart_after_crash: "off" },
    });
    const queue = await openedQueue(t, own.url);
    before(async () => {
      await queue.close();
      await own.stop();
    });
    await queue.enqueue(newJob("e", { id: "done" }));
    const done = await claimOne(queue, "e");
    fill();
    const accepted: string[] = [];
    const away = { code: "DATABASE_AWAY", status: 503 };
    await assert.rejects(async () => {
      for (;;) {
        const { id } = await queue.enqueue(newJob("filler", { input: Buffer.alloc(8_000, "1") }));
        accepted.push(id);
      }
    }, away);
    await assert.rejects(queue.enqueue(newJob("e")), away);
    const result = queue.finish(done, { state: "COMPLETED", output: OUTPUT });
    makeRoom();
    await own.start();
    assert.equal(await result, true);
    assert.deepEqual((await queue.find("done"))?.output, OUTPUT);
    assert.ok(accepted.length > 0);
    for (const id of accepted) assert.equal((await queue.find(id))?.state, "IN_QUEUE");
    assert.equal((await queue.enqueue(newJob("e"))).created, true);
  });

  test("whose role has time-outs waits for a lock all the same, and does again what somebody cancels", async (t) => {
    const url = await server.database("impatient");
    const role = (settings: string) => server.sql(`ALTER ROLE svc IN DATABASE impatient ${settings}`);
    for (const name of ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"])
      await role(`SET ${name} = '50ms'`);
    const queue = await openedQueue(t, url);
    const e = unique("endpoint");
    await queue.enqueue(newJob(e));
    const job = await claimOne(queue, e);
    const holder = await postgresAt(server.adminUrl.replace(/svc$/, "impatient")).connect();
    t.after(() => holder.end());
    await holder.query("BEGIN");
    await holder.query("LOCK TABLE open_jobs IN ACCESS EXCLUSIVE MODE");
    const finished = queue.finish(job, { state: "COMPLETED", output: OUTPUT });
    const cancelled = new Set<string>();
    const cancel = () =>
      eventually(async () => {
        const next = (await waiting("impatient", "relation")).find((pid) => !cancelled.has(pid));
        assert.ok(next !== undefined);
        cancelled.add(next);
        await holder.query("SELECT pg_sleep(0.2)"); // Longer than its role would let it wait.
        assert.ok((await waiting("impatient", "relation")).includes(next));
        await server.sql(`SELECT pg_cancel_backend(${next})`);
      });
    for (let n = 0; n < 3; n++) await cancel();
    const accepted = queue.enqueue(newJob(e));
    await holder.query("COMMIT");
    assert.equal(await finished, true);
    assert.equal((await accepted).created, true);
    const { completed, inQueue, inProgress } = await queue.counts(e);
    assert.deepEqual([completed, inQueue, inProgress], [1, 1, 0]);
    assert.equal(await server.sql("SELECT count(*) FROM done_jobs", "impatient"), "1");
  });

  test("whose connections are ended again and again under load loses no accepted job, and none ends twice", async (t) => {
    const queue = await openedQueue(t, await server.database("ended"), { waitMaxMs: 120_000 });
    const e = unique("endpoint");
    const accepted = new Set<string>();
    const finished: string[] = [];
    const stop = new AbortController();
    const workers = ["w1", "w2"].map(async (worker) => {
      for (;;) {
        const jobs = await queue.claim(e, worker, 3, stop.signal);
        if (jobs.length === 0) return;
        for (const job of jobs) {
          if (await queue.finish(job, { state: "COMPLETED", output: OUTPUT })) finished.push(job.jobId);
        }
      }
    });
    let isOver = false;
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        const { id } = await queue.enqueue(newJob(e));
        accepted.add(id);
        await queue.wait(id, 60_000);
      }
    });
    for (let round = 0; round < 20; round++) {
      const enough = accepted.size + 20;
      await eventually(() => assert.ok(accepted.size > enough));
      const ended = await server.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'ended' AND usename = 'svc'",
      );
      assert.notEqual(ended, "0");
    }
    isOver = true;
    await Promise.all(callers);
    for (const id of accepted) assert.equal((await queue.wait(id, 60_000))?.state, "COMPLETED");
    stop.abort();
    await Promise.all(workers);
    assert.deepEqual([...finished].sort(), [...accepted].sort());
  });

  test("where the wait for the standby is cancelled does not take the commit for done", async (t) => {
    const url = await server.database("standby");
    const queue = await openedQueue(t, url);
    await server.sql("ALTER DATABASE standby SET synchronous_commit = on");
    const set = async (names: string) => {
      await server.sql(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await server.sql("SELECT pg_reload_conf()");
    };
    t.after(() => set(""));
    await set("nobody");
    const own = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'standby' AND usename = 'svc'";
    await server.sql(own); // Sessions that are there commit as they did.
    let isAccepted = false;
    const accepted = queue.enqueue(newJob("e", { id: "once" })).then(() => {
      isAccepted = true;
    });
    const cancelled = new Set<string>();
    for (let n = 0; n < 3; n++) {
      const pid = await eventually(async () => {
        const next = (await waiting("standby", "SyncRep")).find((one) => !cancelled.has(one));
        assert.ok(next !== undefined, "it waits again, on a connection of its own");
        return next;
      });
      assert.equal(isAccepted, false);
      cancelled.add(pid);
      await server.sql(`SELECT pg_cancel_backend(${pid})`);
    }
    await eventually(async () => assert.equal((await waiting("standby", "SyncRep")).length, 1));
    assert.equal(isAccepted, false);
    await set("");
    await accepted;
    assert.equal((await queue.find("once"))?.state, "IN_QUEUE");
    assert.equal(await server.sql("SELECT count(*) FROM open_jobs", "standby"), "1");
  });

  test("that warns of something else is believed", async (t) => {
    const queue = await openedQueue(t, await server.database("warns"));
    await server.sql(
      `CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE WARNING ''vacuum soon''; RETURN NEW; END';
       CREATE TRIGGER warn BEFORE INSERT ON open_jobs FOR EACH ROW EXECUTE FUNCTION warn()`,
      "warns",
    );
    assert.equal((await queue.enqueue(newJob("e"))).created, true);
  });
});
