/** All that a queue can be asked, in any order, while replicas come and leave: whatever moves meanwhile, each is done or sent on. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { isMoved, SvcError } from "../../src/domain/errors.ts";
import { INLINE_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { openPostgresQueue, type ReplicaQueue } from "../../src/queue/postgres-queue.ts";
import type { ClaimedJob } from "../../src/queue/queue.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { postgresAt } from "./open-postgres-queue.ts";
import { has } from "./replicas.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const ENDPOINTS = 5;
const ASKERS = 24;
const MOVES = 6;
const NEVER = "00000000";
/** What may rightly be said of any of them. */
const SAID = new Set(["MOVED", "SHUTTING_DOWN", "CONFLICT"]);
const SMALL = Buffer.from('{"ok":true}');
const LARGE = Buffer.from(JSON.stringify("x".repeat(INLINE_BODY_MAX_BYTES + 1)));

/** All that rows name. */
const REFS = `SELECT coalesce(json_agg(ref), '[]') FROM (SELECT unnest(ARRAY[input_ref, output_ref]) AS ref FROM open_jobs
  UNION ALL SELECT unnest(ARRAY[input_ref, output_ref, error_ref]) FROM done_jobs UNION ALL SELECT ref FROM job_chunks) r
  WHERE ref IS NOT NULL`;

const chance = (of: number) => Math.random() < of;
const any = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
const bytes = () => (chance(0.1) ? LARGE : SMALL);

type Ask = (queue: ReplicaQueue, endpointId: string) => Promise<unknown>;

/** Everything that there is, of jobs that were made by it. */
function everything(over: AbortSignal): Readonly<Record<string, Ask>> {
  const jobs = [NEVER];
  const claims: ClaimedJob[] = [];
  const again = { max: 2, delayMs: 10, backoff: 2, maxDelayMs: 1_000 };
  const ends: readonly ((queue: ReplicaQueue, claim: ClaimedJob) => Promise<unknown>)[] = [
    (queue, claim) => queue.finish(claim, { state: "COMPLETED", output: bytes() }),
    (queue, claim) => queue.finish(claim, { state: "FAILED", error: "bad", again }),
    (queue, claim) => queue.finish(claim, { state: "FAILED", error: bytes().toString() }),
    (queue, claim) => queue.finish(claim, { state: "TIMED_OUT", error: "late" }),
    (queue, claim) => queue.release(claim, chance(0.5) ? "lost" : "handed-back"),
  ];
  const seldom =
    (ask: Ask): Ask =>
    async (queue, e) =>
      chance(0.1) ? ask(queue, e) : undefined;
  return {
    async enqueue(queue, e) {
      const job = newJob(e, {
        input: bytes(),
        idempotencyKey: chance(0.2) ? any(["one", "two", "three"]) : "",
        webhook: chance(0.2) ? "http://127.0.0.1:1/hook" : "",
        lowPriority: chance(0.2),
        isAwaited: chance(0.5),
        retentionMs: chance(0.2) ? 1 : 60_000,
        ttlMs: chance(0.1) ? 20 : 3_600_000,
      });
      jobs.push((await queue.enqueue(job)).id);
    },
    async claim(queue, e) {
      const signal = AbortSignal.any([over, AbortSignal.timeout(200)]);
      claims.push(...(await queue.claim(e, any(["w1", "w2", "w3"]), 3, signal)));
    },
    async finish(queue) {
      const claim = claims.splice(Math.floor(Math.random() * claims.length), 1)[0];
      if (claim === undefined) return;
      try {
        await any(ends)(queue, claim);
      } catch (error) {
        claims.push(claim);
        throw error;
      }
    },
    renew: (queue) => queue.renew(claims.slice(0, 20)),
    cancel: (queue) => queue.cancel(any(jobs)),
    retry: (queue) => queue.retry(any(jobs)),
    purge: seldom((queue, e) => queue.purge(e)),
    progress: async (queue) => claims.length > 0 && queue.progress(any(claims), bytes()),
    chunk: async (queue) => claims.length > 0 && queue.chunk(any(claims), bytes()),
    takeChunks: (queue) => queue.takeChunks(any(jobs), 20),
    readChunks: (queue) => queue.readChunks(any(jobs), 0, 20),
    wait: (queue) => queue.wait(any(jobs), 50),
    find: (queue) => queue.find(any(jobs)),
    findExpired: (queue) => queue.findExpired(any(jobs)),
    input: (queue) => queue.input(any(jobs)),
    list: (queue, e) => queue.list(e, { limit: 20, expired: chance(0.5) }),
    search: (queue) => queue.search({ limit: 20, ...(chance(0.5) && { error: (text) => text.includes("bad") }) }),
    counts: (queue, e) => queue.counts(e),
    failQueued: seldom((queue, e) => queue.failQueued(e, "w", "broken")),
    failAwaited: seldom((queue, e) => queue.failAwaited(e, "w", "broken")),
    sweep: (queue) => queue.sweep(),
    expireLeases: (queue) => queue.expireLeases(),
    wakeDelayed: (queue) => queue.wakeDelayed(),
    forget: seldom((queue, e) => queue.forget(e)),
    endpointIds: (queue) => queue.endpointIds(),
    scheduleOf: (queue, e) => queue.scheduleOf(e),
    setSchedule: (queue, e) => queue.setSchedule(e, { spec: "* * * * *", until: Date.now(), paused: false }),
    tick: (queue, e) => queue.tick(e, Date.now(), Date.now(), newJob(e)),
    async deliver(queue) {
      for (const { id } of await queue.dueDeliveries(5, chance(0.5) ? ["other:1"] : [])) {
        await queue.settleDelivery(id, chance(0.5) ? null : Date.now());
      }
    },
  };
}

describe("replicas that come and leave", { skip }, () => {
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
    const wrong: unknown[] = [];
    const alive: ReplicaQueue[] = [];
    let opened = 0;
    async function open() {
      const postgres = postgresAt(url);
      const id = `replica-${opened++}`;
      const queue = await openPostgresQueue({
        ...{ postgres, bodies, clock: Date.now },
        own: (work) => void work.catch((error) => wrong.push(["nobody waits for it", error])),
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

    const over = new AbortController();
    const asks = everything(over.signal);
    const names = [
      ...Object.keys(asks),
      ...["enqueue", "claim", "finish"].flatMap((name) => Array<string>(6).fill(name)),
    ];
    const endpoints = Array.from({ length: ENDPOINTS }, () => unique("endpoint"));
    const done = new Map<string, number>();
    const asked = new Map<number, string>();
    const asker = async (n: number) => {
      while (!over.signal.aborted) {
        const [name, e] = [any(names), any(endpoints)];
        const [queue, other] = chance(0.5) ? alive : alive.toReversed();
        asked.set(n, name);
        let heard = name;
        try {
          // As a gateway asks: whoever has it is the next one.
          await asks[name]!(queue!, e).catch((error) => {
            if (other === undefined || !isMoved(error)) throw error;
            return asks[name]!(other, e);
          });
        } catch (error) {
          heard = (error as SvcError).code;
          if (!(error instanceof SvcError && SAID.has(heard))) wrong.push([name, error]);
        }
        done.set(heard, (done.get(heard) ?? 0) + 1);
        asked.delete(n);
        await pause(1);
      }
    };
    const askers = Promise.all(Array.from({ length: ASKERS }, (_, n) => asker(n)));
    for (let n = 0; n < MOVES && wrong.length === 0; n++) {
      const second = await open();
      // Each has a part of them for a while, or not.
      await pause(any([0, 300, 2_000]));
      // What the first does not hear of.
      if (n % 3 === 2) second.queue.shards.tell({ type: "gone", now: performance.now(), replica: first.id });
      await first.leaves();
      await has(second, 256);
      first = second;
    }
    over.abort();
    await eventually(() => assert.deepEqual([...asked.values()], [], "each is answered"));
    await askers;
    t.diagnostic([...done].map(([name, count]) => `${name} ${count}`).join(", "));
    assert.deepEqual(wrong, []);

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
});
