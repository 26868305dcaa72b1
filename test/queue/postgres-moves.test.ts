/** All that a queue can be asked, in any order, while replicas come and leave: whatever moves meanwhile, each is done or sent on. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { SvcError } from "../../src/domain/errors.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { LiveState } from "../../src/queue/machine/live-state.ts";
import { openPostgresQueue, type ReplicaQueue } from "../../src/queue/postgres-queue.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { Askers } from "./everything.ts";
import { postgresAt } from "./open-postgres-queue.ts";
import { has, openReplica } from "./replicas.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const ENDPOINTS = 5;
const MOVES = 6;

/** All that rows name. */
const REFS = `SELECT coalesce(json_agg(ref), '[]') FROM (SELECT unnest(ARRAY[input_ref, output_ref]) AS ref FROM open_jobs
  UNION ALL SELECT unnest(ARRAY[input_ref, output_ref, error_ref]) FROM done_jobs UNION ALL SELECT ref FROM job_chunks) r
  WHERE ref IS NOT NULL`;

describe("endpoints of replicas that come and leave", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  test("whatever a queue is asked while shards move is done, or sent on, and counts stay those of the rows", async (t) => {
    const url = await server.database("moves");
    const dir = mkdtempSync(join(tmpdir(), "svc-moves-"));
    t.after(() => rmSync(dir, { recursive: true }));
    const bodies = await DiskBodyStore.open(dir, false);
    const unawaited: unknown[] = [];
    const alive: ReplicaQueue[] = [];
    let opened = 0;
    async function open() {
      const postgres = postgresAt(url);
      const id = `replica-${opened++}`;
      const queue = await openPostgresQueue({
        ...{ postgres, bodies, clock: Date.now },
        own: (work) => void work.catch((error) => unawaited.push(error)),
        replica: { id, address: `${id}:1`, links: { first: 1, last: 1 } },
      });
      alive.push(queue);
      let isOpen = true;
      const close = async () => {
        if (!isOpen) return;
        isOpen = false;
        await queue.close();
        await postgres.close();
      };
      t.after(close);
      const leaves = async () => {
        await queue.shards.drain();
        alive.splice(alive.indexOf(queue), 1);
        await close();
      };
      return { id, queue, moved: [], leaves };
    }
    let first = await open();
    await has(first, 256);

    const endpoints = Array.from({ length: ENDPOINTS }, () => unique("endpoint"));
    const askers = new Askers(alive, endpoints);
    t.after(() => askers.end());
    const { wrong } = askers;
    for (let n = 0; n < MOVES && wrong.length === 0; n++) {
      const second = await open();
      // Each has a part of them for a while, or not.
      await pause([0, 300, 2_000][n % 3]);
      // What the first does not hear of.
      if (n % 2 === 1) second.queue.shards.tell({ type: "gone", now: performance.now(), replica: first.id });
      await first.leaves();
      await has(second, 256);
      first = second;
    }
    t.diagnostic(await askers.end());
    assert.deepEqual([...wrong, ...unawaited], []);

    const last = await open();
    await first.leaves();
    await has(last, 256);
    for (const e of endpoints) {
      const { inQueue, delayed, inProgress } = await last.queue.counts(e);
      const of = (state: number) => `count(*) FILTER (WHERE state = ${state})`;
      const rows = await server.sql(
        `SELECT ${of(0)} || ' ' || ${of(-1)} || ' ' || ${of(1)} FROM open_jobs j
         JOIN queue_endpoints q ON q.number = j.endpoint WHERE q.id = '${e}'`,
        "moves",
      );
      assert.equal(`${inQueue} ${delayed} ${inProgress}`, rows);
    }
    for (const table of ["open_jobs", "done_jobs", "expired_jobs"]) {
      const lone = `SELECT count(*) FROM ${table} j WHERE NOT EXISTS (SELECT FROM queue_endpoints q WHERE q.number = j.endpoint)`;
      assert.equal(await server.sql(lone, "moves"), "0", `${table}: each is of an endpoint`);
    }
    const refs = JSON.parse(await server.sql(REFS, "moves")) as string[];
    t.diagnostic(`${refs.length} large bodies`);
    for (const ref of refs) assert.notEqual(await bodies.get(ref), undefined, `${ref} is there`);
  });

  test("one that was another's, and is removed, keeps no batch from being done again", async (t) => {
    const url = await server.database("removed");
    const first = await openReplica(t, url, "first");
    await has(first, 256);
    const [e, other] = [unique("endpoint"), unique("endpoint")];
    await first.queue.enqueue(newJob(e));
    const { id } = await first.queue.enqueue(newJob(other));
    const second = await openReplica(t, url, "second");
    // It knows whose they are.
    await second.queue.search({ limit: 1 });
    await first.queue.shards.drain();
    await has(second, 256);
    await second.queue.enqueue(newJob(e));
    await second.queue.forget(e);
    await assert.rejects(second.queue.enqueue(newJob(other, { id })), { code: "CONFLICT" });
    await second.queue.enqueue(newJob(other));
    assert.equal((await second.queue.counts(other)).inQueue, 2);
  });

  test("a queue that cannot take in what it read again says so, and is over: others can have its shards", async (t) => {
    const url = await server.database("unreadable");
    const first = await openReplica(t, url, "first");
    await has(first, 256);
    const e = unique("endpoint");
    const { id } = await first.queue.enqueue(newJob(e));
    await first.queue.close();
    const said: unknown[] = [];
    const second = await openReplica(t, url, "second", { lost: (error) => said.push(error) });
    await has(second, 256);
    const cause = new Error("it does not fit");
    const { mock } = t.mock.method(LiveState.prototype, "load", () => {
      throw cause;
    });
    // That is there: the batch is refused, and all is read again.
    await assert.rejects(second.queue.enqueue(newJob(e, { id })), { code: "INTERNAL", cause });
    mock.restore();
    assert.deepEqual(
      said.map((error) => (error as SvcError).cause),
      [cause],
    );
    await assert.rejects(second.queue.enqueue(newJob(e)), { code: "INTERNAL" });
    await second.queue.close();
    const third = await openReplica(t, url, "third");
    await has(third, 256);
    assert.equal((await third.queue.counts(e)).inQueue, 1);
  });

  test("one whose connection is lost while it first looks who is there is opened all the same", async (t) => {
    const url = await server.database("cut");
    // It makes the tables.
    await (await openReplica(t, url, "first")).queue.close();
    const holder = postgresAt(url);
    t.after(() => holder.close());
    const client = await holder.connect();
    await client.query("BEGIN; LOCK TABLE replicas");
    const opening = openReplica(t, url, "second");
    const cut = `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO replicas%') cut`;
    await eventually(async () => assert.equal(await server.sql(cut, "cut"), "1"));
    await client.query("ROLLBACK");
    await opening;
  });
});
