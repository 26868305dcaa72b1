/** The queue on a PostgreSQL that is cut off, killed, taken over and away. */
import assert from "node:assert/strict";
import { connect, createServer, type Server, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import type { SvcError } from "../../src/domain/errors.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { newJob, unique } from "../conformance/queue.ts";
import { lackOfPgBouncer, startPgBouncer } from "../pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { claimOne, openedQueue } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const OUTPUT = Buffer.from('{"ok":true}');

/** Stands before the server. Once armed, the nth piece that a client sends is its last: it arrives and is answered, or not. */
class Cutter {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #left = Number.POSITIVE_INFINITY;
  #arrives = false;

  constructor(port: number) {
    this.#server = createServer((client) => this.#pass(client, connect(port, "127.0.0.1")));
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as { port: number }).port;
  }

  arm(nth: number, arrives: boolean): void {
    this.#left = nth;
    this.#arrives = arrives;
  }

  /** Whether it has cut since it was armed. */
  get hasCut(): boolean {
    return this.#left <= 0;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #pass(client: Socket, server: Socket): void {
    let isCut = false;
    const end = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", end);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        end();
      });
    }
    client.on("data", (data) => {
      this.#left -= 1;
      isCut = this.#left === 0;
      if (isCut && !this.#arrives) end();
      else server.write(data);
    });
    server.on("data", (data) => {
      if (isCut) end();
      else client.write(data);
    });
  }
}

/** Something of everything that writes. Resolves when all of it is as it should be. */
async function day(queue: JobQueue): Promise<void> {
  const e = unique("endpoint");
  const jobs = [
    newJob(e, { idempotencyKey: "k", webhook: "https://r.test/" }),
    newJob(e),
    newJob(e, { lowPriority: true }),
  ];
  for (const job of jobs) assert.deepEqual(await queue.enqueue(job), { id: job.id, created: true });
  assert.deepEqual(await queue.enqueue(newJob(e, { idempotencyKey: "k" })), { id: jobs[0]!.id, created: false });
  const [first, second] = [await claimOne(queue, e), await claimOne(queue, e)];
  assert.deepEqual([first.jobId, second.jobId], [jobs[0]!.id, jobs[1]!.id]);
  await queue.chunk(first, Buffer.from("1"));
  await queue.progress(second, Buffer.from("2"));
  assert.deepEqual((await queue.takeChunks(first.jobId, 0))?.chunks, [Buffer.from("1")]);
  assert.equal(await queue.finish(first, { state: "COMPLETED", output: OUTPUT }), true);
  assert.equal(await queue.finish(first, { state: "COMPLETED", output: OUTPUT }), false);
  await queue.release(second, "lost");
  const again = await claimOne(queue, e);
  assert.equal(again.jobId, second.jobId);
  assert.ok(again.fence > second.fence);
  assert.equal(await queue.finish(again, { state: "FAILED", error: "x" }), true);
  assert.equal(await queue.retry(again.jobId), true);
  assert.equal((await queue.cancel(jobs[2]!.id))?.state, "CANCELLED");
  const counts = await queue.counts(e);
  assert.deepEqual(
    [counts.inQueue, counts.inProgress, counts.completed, counts.failed, counts.retried],
    [1, 0, 1, 0, 2],
  );
  const [delivery] = (await queue.dueDeliveries(100, [])).filter(({ jobId }) => jobId === first.jobId);
  await queue.settleDelivery(delivery!.id, null);
  assert.equal(await queue.purge(e), 1);
  const states = await Promise.all(jobs.map(async ({ id }) => (await queue.find(id))?.state));
  assert.deepEqual(states, ["COMPLETED", undefined, "CANCELLED"]);
}

describe("the job queue on PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin, { durable: true });
  });
  after(() => server?.stop());

  test("works behind PgBouncer in transaction mode, also with another platform's statements on its connections", async (t) => {
    const missing = await lackOfPgBouncer();
    if (missing !== undefined) return t.skip(missing);
    await server.database("pooled");
    const bouncer = await startPgBouncer(server);
    t.after(() => bouncer.stop());
    const url = `postgres://svc@127.0.0.1:${bouncer.port}/pooled`;
    const first = await openedQueue(t, url);
    const { id } = await first.enqueue(newJob("pooled"));
    const second = await openedQueue(t, url);
    await assert.rejects(first.enqueue(newJob("pooled")));
    const ids = await Promise.all(Array.from({ length: 50 }, () => second.enqueue(newJob("pooled"))));
    const seen: string[] = [];
    while (seen.length < 51) {
      const job = await claimOne(second, "pooled");
      assert.equal(await second.finish(job, { state: "COMPLETED", output: OUTPUT }), true);
      seen.push(job.jobId);
    }
    assert.deepEqual(seen.sort(), [id, ...ids.map((each) => each.id)].sort());
  });

  test("wherever the connection is cut, every change is made once", async (t) => {
    const cutter = new Cutter(server.port);
    t.after(() => cutter.close());
    const url = new URL(await server.database("cut"));
    url.port = `${await cutter.listen()}`;
    const queue = await openedQueue(t, url.href);
    for (const arrives of [false, true]) {
      for (let nth = 1; ; nth++) {
        cutter.arm(nth, arrives);
        await day(queue);
        if (!cutter.hasCut) break;
      }
    }
  });

  test("killed under load, the server has lost no accepted job when it is back, and none ends twice", async (t) => {
    const queue = await openedQueue(t, await server.database("killed"), { waitMaxMs: 120_000 });
    const e = unique("endpoint");
    const accepted = new Set<string>();
    const finished: string[] = [];
    const stop = new AbortController();
    const workers = ["w1", "w2", "w3", "w4"].map(async (worker) => {
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
      while (!isOver) accepted.add((await queue.enqueue(newJob(e))).id);
    });
    for (let kill = 1; kill <= 3; kill++) {
      const enough = accepted.size + 200;
      while (accepted.size < enough)
        await queue.wait(await queue.enqueue(newJob(e)).then(({ id }) => accepted.add(id) && id), 60_000);
      await server.kill("SIGQUIT");
      await server.start();
    }
    isOver = true;
    await Promise.all(callers);
    for (const id of accepted) assert.equal((await queue.wait(id, 60_000))?.state, "COMPLETED");
    stop.abort();
    await Promise.all(workers);
    assert.equal(new Set(finished).size, finished.length);
    assert.deepEqual(new Set(finished), accepted);
    const { completed, inQueue, inProgress } = await queue.counts(e);
    assert.deepEqual([completed, inQueue, inProgress], [accepted.size, 0, 0]);
  });

  test("a second platform takes over what is there; the first writes nothing more and says why", async (t) => {
    const url = await server.database("taken");
    const told: SvcError[] = [];
    const first = await openedQueue(t, url, { lost: (error) => told.push(error) });
    const e = unique("endpoint");
    const { id: queued } = await first.enqueue(newJob(e));
    const running = await claimOne(first, e);
    const { id: waits } = await first.enqueue(newJob(e));
    const second = await openedQueue(t, url);
    const lost = first.finish(running, { state: "FAILED", error: "of the first" });
    await assert.rejects(lost, { code: "SHUTTING_DOWN", message: /Another platform has taken over/ });
    await assert.rejects(first.enqueue(newJob(e)), { code: "SHUTTING_DOWN" });
    assert.equal(told.length, 1);
    assert.equal((await second.find(queued))?.state, "IN_PROGRESS");
    assert.equal(await second.finish(running, { state: "COMPLETED", output: OUTPUT }), true);
    const next = await claimOne(second, e);
    assert.equal(next.jobId, waits);
    assert.ok(next.fence > 2 ** 20, "of a later epoch");
  });

  test("a database that is away is waited for, then callers are told; what a worker brought is stored when it is back", async (t) => {
    const queue = await openedQueue(t, await server.database("away"), { waitMaxMs: 200 });
    const e = unique("endpoint");
    const { id } = await queue.enqueue(newJob(e));
    const claim = await claimOne(queue, e);
    await queue.enqueue(newJob(e));
    const running = await claimOne(queue, e);
    await server.kill("SIGQUIT");
    const stored = queue.finish(claim, { state: "COMPLETED", output: OUTPUT });
    const away = { code: "DATABASE_AWAY" };
    await assert.rejects(queue.enqueue(newJob(e)), away);
    await assert.rejects(queue.enqueue(newJob(e)), away, "at once by now");
    await assert.rejects(queue.find(id), away);
    assert.deepEqual(await queue.renew([running]), []);
    await server.start();
    assert.equal(await stored, true);
    assert.equal((await queue.find(id))?.state, "COMPLETED");
    assert.equal((await queue.enqueue(newJob(e))).created, true);
  });

  test("callers are told of a database that stays away also when a timer was early", { timeout: 60_000 }, async (t) => {
    const queue = await openedQueue(t, await server.database("early"), { waitMaxMs: 100 });
    await server.kill("SIGQUIT");
    t.after(() => server.start());
    // By this clock every timer has half its time.
    const { now } = performance;
    t.mock.method(performance, "now", () => now.call(performance) / 2);
    await assert.rejects(queue.enqueue(newJob(unique("endpoint"))), { code: "DATABASE_AWAY" });
  });
});
