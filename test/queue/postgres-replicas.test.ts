/** Several replicas of the queue on one PostgreSQL: each shard has one owner, whoever believes what. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, type TestContext, test } from "node:test";
import type { SvcError } from "../../src/domain/errors.ts";
import { DELETE_BATCH_ROWS } from "../../src/domain/limits.ts";
import { shardOf } from "../../src/queue/postgres/ownership.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { claimOne } from "./open-postgres-queue.ts";
import { has, type Opened, openReplica } from "./replicas.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const COMPLETED = { state: "COMPLETED", output: Buffer.from('{"ok":true}') } as const;
const WAKES_MAX = 5;
const LOOK_MS = 20;
const MOVED = { code: "MOVED", status: 503 };

interface Child {
  readonly process: ChildProcess;
  readonly said: Map<string, string[]>;
}

function startChild(t: TestContext, url: string, id: string, endpoints: readonly string[]): Child {
  const dir = mkdtempSync(join(tmpdir(), "svc-child-"));
  const file = join(import.meta.dirname, "replica-child.ts");
  const child = spawn(process.execPath, [file, url, dir, id, ...endpoints], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => {
    child.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  });
  const said = new Map<string, string[]>();
  createInterface({ input: child.stdout! }).on("line", (line) => {
    const [what, value = ""] = line.split(/ (.*)/);
    said.set(what!, [...(said.get(what!) ?? []), value]);
  });
  return { process: child, said };
}

const count = ({ said }: Child, what: string) => said.get(what)?.length ?? 0;

describe("replicas of the queue on PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  const rows = (database: string, sql: string) => server.sql(sql, database);

  test("one that is alone has all shards at once, and one that ends leaves them to the next", async (t) => {
    const url = await server.database("alone");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const e = unique("endpoint");
    const { id } = await first.queue.enqueue(newJob(e));
    await first.queue.close();
    const second = await openReplica(t, url, "b");
    await has(second, 256);
    const job = await claimOne(second.queue, e);
    assert.equal(job.jobId, id);
    assert.equal(await second.queue.finish(job, COMPLETED), true);
    assert.equal((await second.queue.counts(e)).completed, 1);
  });

  test("shards are handed over under load: no job is lost, none ends twice, and callers hear where to go", async (t) => {
    const url = await server.database("handed");
    const endpoints = Array.from({ length: 12 }, () => unique("endpoint"));
    let second: Opened | undefined;
    const first = await openReplica(t, url, "a", { told: () => second?.queue.shards.nudge() });
    await has(first, 256);
    second = await openReplica(t, url, "b");
    const replicas = [first, second];
    const accepted = new Set<string>();
    const finished: string[] = [];
    const refused: SvcError[] = [];
    let isOver = false;
    const stop = new AbortController();
    const anywhere = async (work: (queue: JobQueue) => Promise<unknown>) => {
      for (let n = 0; !isOver; n++) {
        try {
          await work(replicas[n % 2]!.queue);
          return;
        } catch (error) {
          refused.push(error as SvcError);
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }
    };
    const callers = endpoints.map(async (e) => {
      while (!isOver) {
        const job = newJob(e);
        await anywhere(async (queue) => accepted.add((await queue.enqueue(job)).id));
      }
    });
    const workers = endpoints.map(async (e, n) => {
      while (!stop.signal.aborted) {
        await anywhere(async (queue) => {
          for (const claim of await queue.claim(e, `w${n}`, 2, stop.signal)) {
            // Who is told to go elsewhere brings the result there.
            await anywhere(async (other) => {
              if (await other.finish(claim, COMPLETED)) finished.push(claim.jobId);
            });
          }
        });
        if (isOver) return;
      }
    });
    await eventually(() => assert.ok(finished.length > 200));
    await first.queue.shards.drain();
    await has(second, 256);
    const enough = finished.length + 200;
    await eventually(() => assert.ok(finished.length > enough));
    isOver = true;
    await Promise.all(callers);
    stop.abort();
    await Promise.all(workers);
    assert.deepEqual(new Set(refused.map(({ code }) => code)), new Set(["MOVED"]));
    assert.deepEqual(first.moved.toSorted(), endpoints.toSorted());
    assert.equal(new Set(finished).size, finished.length, "none ended twice");
    let [inQueue, completed, inProgress] = [0, 0, 0];
    for (const e of endpoints) {
      const counts = await second.queue.counts(e);
      inQueue += counts.inQueue;
      completed += counts.completed;
      inProgress += counts.inProgress;
    }
    const open = Number(await rows("handed", "SELECT count(*) FROM open_jobs"));
    const done = Number(await rows("handed", "SELECT count(*) FROM done_jobs"));
    assert.deepEqual([inQueue + inProgress, completed], [open, done], "the counts are those of the rows");
    assert.ok(open + done >= accepted.size);
    for (const id of accepted) assert.notEqual(await second.queue.find(id), undefined);
  });

  test("two that believe to own a shard: the one that was taken over writes nothing of a batch, and goes on with the rest", async (t) => {
    const url = await server.database("two_owners");
    const endpoints = Array.from({ length: 24 }, () => unique("endpoint"));
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const ids = new Map<string, string>();
    for (const e of endpoints) ids.set(e, (await first.queue.enqueue(newJob(e))).id);
    const running = new Map(
      await Promise.all(endpoints.map(async (e) => [e, await claimOne(first.queue, e)] as const)),
    );
    // A third should have a part of them.
    await rows("two_owners", "INSERT INTO replicas VALUES ('c', '', 1, 1, 1, false)");
    const second = await openReplica(t, url, "b");
    // What the first does not hear of.
    second.queue.shards.tell({ type: "gone", now: performance.now(), replica: "a" });
    await has(second, (shards) => shards.length > 50);
    const mine = new Set(second.queue.shards.ownership.in("OWNER"));
    const taken = endpoints.filter((e) => mine.has(shardOf(e)));
    const left = endpoints.filter((e) => !mine.has(shardOf(e)));
    assert.ok(taken.length > 0 && left.length > 0);
    // One batch of the first over shards of both.
    const results = await Promise.allSettled(endpoints.map((e) => first.queue.finish(running.get(e)!, COMPLETED)));
    for (const [n, e] of endpoints.entries()) {
      const result = results[n]!;
      if (left.includes(e)) assert.deepEqual(result, { status: "fulfilled", value: true });
      else assert.equal((result as PromiseRejectedResult).reason.code, "MOVED");
    }
    for (const e of taken) {
      await assert.rejects(first.queue.enqueue(newJob(e)), MOVED);
      await assert.rejects(first.queue.claim(e, "w", 1, new AbortController().signal), MOVED);
      await assert.rejects(first.queue.wait(ids.get(e)!, 60_000), MOVED);
      assert.equal((await first.queue.find(ids.get(e)!))?.state, "IN_PROGRESS", "rows are there for all");
      assert.deepEqual(await first.queue.renew([running.get(e)!]), [], "that is for the other to say");
      assert.equal(await second.queue.finish(running.get(e)!, COMPLETED), true);
    }
    assert.deepEqual(first.moved.toSorted(), taken.toSorted());
    for (const e of left) assert.equal((await second.queue.find(ids.get(e)!))?.state, "COMPLETED");
    assert.equal(await rows("two_owners", "SELECT count(*) FROM done_jobs"), `${endpoints.length}`);
  });

  test("what runs is found and listed by each of them, whoever has it", async (t) => {
    const url = await server.database("found");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const endpoints = Array.from({ length: 24 }, () => unique("endpoint"));
    const ids = await Promise.all(
      endpoints.map(async (e) => {
        const { id } = await first.queue.enqueue(newJob(e));
        assert.equal((await claimOne(first.queue, e)).jobId, id);
        return id;
      }),
    );
    const second = await openReplica(t, url, "b");
    await has(second, (shards) => shards.length > 50);
    const mine = new Set(second.queue.shards.ownership.in("OWNER"));
    assert.equal(new Set(endpoints.map((e) => mine.has(shardOf(e)))).size, 2, "each has some of them");
    for (const { queue } of [first, second]) {
      const all = await queue.search({ states: ["IN_PROGRESS"], limit: 100 });
      assert.deepEqual(all.jobs.map(({ id }) => id).sort(), ids.toSorted());
      const some = await queue.search({ endpointIds: endpoints.slice(0, 9), limit: 100 });
      assert.deepEqual(some.jobs.map(({ id }) => id).sort(), ids.slice(0, 9).sort());
      for (const [n, e] of endpoints.entries()) {
        const listed = await queue.list(e, { limit: 10 });
        assert.deepEqual(
          listed.map(({ id, state }) => [id, state]),
          [[ids[n], "IN_PROGRESS"]],
        );
      }
    }
  });

  test("of shards that are given together, one that another took meanwhile stays that one's, with its counts", async (t) => {
    const url = await server.database("together");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const [taken, given] = [unique("endpoint"), unique("endpoint")];
    for (const e of [taken, given]) await first.queue.enqueue(newJob(e));
    // One of them leaves: nothing goes to it.
    await rows("together", "INSERT INTO replicas VALUES ('b', '', 1, 1, 1, true), ('c', '', 1, 1, 1, false)");
    await first.queue.shards.look();
    // What the first does not hear of.
    const seven = `UPDATE queue_endpoints SET in_queue = 7 WHERE id = '${taken}'`;
    await rows("together", `UPDATE queue_shards SET owner = 'b', nonce = 77 WHERE shard = ${shardOf(taken)}; ${seven}`);
    first.queue.shards.tell({ type: "drain", now: performance.now() });
    await eventually(() => assert.equal(first.queue.shards.ownership.in("FREE").length, 256));
    const owners = "SELECT string_agg(owner || ' ' || n, ', ' ORDER BY owner) FROM";
    const counted = await rows(
      "together",
      `${owners} (SELECT owner, count(*) AS n FROM queue_shards WHERE nonce IN (0, 77) GROUP BY owner) s`,
    );
    assert.equal(counted, "b 1, c 255");
    const queued = "SELECT string_agg(in_queue::text, ' ' ORDER BY in_queue) FROM queue_endpoints";
    assert.equal(await rows("together", queued), "1 7");
  });

  test("jobs are deleted, or fail, batch by batch also while their shard is given: whoever does it hears where the rest is", async (t) => {
    const url = await server.database("between");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const [purged, failed] = [unique("endpoint"), unique("endpoint")];
    // Three batches each.
    const count = 2 * DELETE_BATCH_ROWS + 1;
    for (const e of [purged, failed]) {
      await Promise.all(Array.from({ length: count }, () => first.queue.enqueue(newJob(e))));
    }
    const second = await openReplica(t, url, "b");
    await first.queue.shards.look();
    const asks = [
      assert.rejects(first.queue.purge(purged), MOVED),
      // Those that wait elsewhere are not its own to fail.
      first.queue.failQueued(failed, "w", "broken"),
    ];
    first.queue.shards.tell({ type: "drain", now: performance.now() });
    await Promise.all(asks);
    await has(second, 256);
    assert.ok((await second.queue.purge(purged)) > 0);
    assert.ok((await second.queue.counts(failed)).inQueue > 0);
  });

  test("an endpoint is forgotten also while its shard is given: by whoever has it then, and nothing else is held up", async (t) => {
    const url = await server.database("forgotten");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const e = unique("endpoint");
    const { id } = await first.queue.enqueue(newJob(e));
    assert.equal(await first.queue.finish(await claimOne(first.queue, e), COMPLETED), true);
    const second = await openReplica(t, url, "b");
    await first.queue.shards.look();
    const forgets = assert.rejects(first.queue.forget(e), MOVED);
    first.queue.shards.tell({ type: "drain", now: performance.now() });
    await forgets;
    await has(second, 256);
    assert.equal((await second.queue.find(id))?.state, "COMPLETED");
    await second.queue.forget(e);
    assert.equal(await second.queue.find(id), undefined);
    assert.deepEqual(await second.queue.endpointIds(), []);
  });

  test("chunks that are taken just while their shard is given come once, from one or the other", async (t) => {
    const url = await server.database("chunks");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const ids = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const e = unique("endpoint");
        const { id } = await first.queue.enqueue(newJob(e));
        const claim = await claimOne(first.queue, e);
        await first.queue.chunk(claim, Buffer.from("1"));
        return id;
      }),
    );
    const second = await openReplica(t, url, "b");
    await first.queue.shards.look();
    const taken = Promise.allSettled(ids.map((id) => first.queue.takeChunks(id, 0)));
    first.queue.shards.tell({ type: "drain", now: performance.now() });
    const answers = await taken;
    await has(second, 256);
    for (const [n, answer] of answers.entries()) {
      if (answer.status === "rejected") assert.equal(answer.reason.code, "MOVED");
      const here = answer.status === "fulfilled" ? answer.value!.chunks.length : 0;
      const there = (await second.queue.takeChunks(ids[n]!, 0))!.chunks.length;
      assert.equal(here + there, 1, `${here} here, ${there} there`);
    }
  });

  test("callers who wait for a job of a shard that is given hear of it", async (t) => {
    const url = await server.database("waits");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const e = unique("endpoint");
    const { id } = await first.queue.enqueue(newJob(e));
    const waits = assert.rejects(first.queue.wait(id, 60_000), MOVED);
    const claims = assert.rejects(first.queue.claim(unique("endpoint"), "w", 1, new AbortController().signal), MOVED);
    const second = await openReplica(t, url, "b");
    await first.queue.shards.look();
    await first.queue.shards.drain();
    await Promise.all([waits, claims]);
    await has(second, 256);
    assert.equal((await claimOne(second.queue, e)).jobId, id);
  });

  test("a caller who waits where a shard was hears of a job that has ended by the time that one knows", async (t) => {
    const url = await server.database("ended");
    const first = await openReplica(t, url, "a");
    await has(first, 256);
    const e = unique("endpoint");
    const { id } = await first.queue.enqueue(newJob(e));
    const running = await claimOne(first.queue, e);
    // Either is right: which one depends on when it looks next.
    const waits = first.queue.wait(id, 600_000).then(
      (job) => job?.state,
      ({ code }: SvcError) => code,
    );
    const second = await openReplica(t, url, "b");
    // What the first does not hear of.
    second.queue.shards.tell({ type: "gone", now: performance.now(), replica: "a" });
    await has(second, 256);
    assert.equal(await second.queue.finish(running, COMPLETED), true);
    await eventually(() => assert.deepEqual(first.moved, [e]));
    assert.ok(["COMPLETED", "MOVED"].includes((await waits)!));
  });

  test("of one that is killed others have the shards within seconds, with all that it accepted", async (t) => {
    const url = await server.database("killed");
    const endpoints = Array.from({ length: 4 }, () => unique("endpoint"));
    const child = startChild(t, url, "child", endpoints);
    await eventually(() => assert.ok(count(child, "finished") > 100));
    const second = await openReplica(t, url, "b");
    assert.deepEqual(second.queue.shards.ownership.in("OWNER"), []);
    child.process.kill("SIGKILL");
    await has(second, 256);
    const accepted = child.said.get("accepted") ?? [];
    for (const id of accepted) assert.notEqual(await second.queue.find(id), undefined, id);
    for (const id of child.said.get("finished") ?? []) assert.equal((await second.queue.find(id))?.state, "COMPLETED");
    // What ran there is lost by its worker, or comes back with it: its lease says when.
    const running = Number(await rows("killed", "SELECT count(*) FROM open_jobs WHERE state = 1"));
    const sums = await Promise.all(endpoints.map((e) => second.queue.counts(e)));
    assert.equal(
      sums.reduce((sum, { inProgress }) => sum + inProgress, 0),
      running,
    );
    const { id } = await second.queue.enqueue(newJob(endpoints[0]!));
    assert.equal((await second.queue.cancel(id))?.state, "CANCELLED");
  });

  test("one that was stopped and wakes writes nothing with its first batch, and hears that it has nothing", async (t) => {
    // Where this very process stands still for longer, all may rightly go back to the one that woke: then once more.
    let hadAll = false;
    for (let tries = 0; !hadAll; tries++) {
      assert.ok(tries < WAKES_MAX, "this machine lets no process live");
      hadAll = await wakesBeside(t, `stopped${tries}`);
    }
  });

  /** Whether the other one had all shards meanwhile. */
  async function wakesBeside(t: TestContext, database: string): Promise<boolean> {
    const url = await server.database(database);
    const endpoints = Array.from({ length: 4 }, () => unique("endpoint"));
    const child = startChild(t, url, "child", endpoints);
    await eventually(() => assert.ok(count(child, "finished") > 100));
    const second = await openReplica(t, url, "b");
    child.process.kill("SIGSTOP");
    await has(second, 256);
    let lost = false;
    const look = setInterval(() => {
      lost ||= second.queue.shards.ownership.in("OWNER").length < 256;
    }, LOOK_MS);
    t.after(() => clearInterval(look));
    const written = async () =>
      `${await rows(database, "SELECT count(*) FROM open_jobs")} ${await rows(database, "SELECT count(*) FROM done_jobs")}`;
    const before = await written();
    child.process.kill("SIGCONT");
    await eventually(() => assert.ok(lost || count(child, "refused") === 2 * endpoints.length));
    if (lost) return false;
    assert.deepEqual(new Set(child.said.get("refused")), new Set(["MOVED"]));
    assert.equal(await written(), before);
    for (const id of child.said.get("accepted") ?? []) assert.notEqual(await second.queue.find(id), undefined, id);
    try {
      for (const e of endpoints) assert.equal((await second.queue.enqueue(newJob(e))).created, true);
    } catch (error) {
      if (second.queue.shards.ownership.in("OWNER").length < 256) return false;
      throw error;
    }
    return true;
  }
});
