/** Links that break with both ends alive, and what is said in which order when a worker is back. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { SvcError } from "../../src/domain/errors.ts";
import { CANCEL_GRACE_MS, CANCEL_MANY_MAX_MS, WORKER_BOOT_TIMEOUT_MS } from "../../src/domain/limits.ts";
import { FRAME, type HeldJob, PROTOCOL_VERSION } from "../../src/domain/worker-protocol.ts";
import { type Frame, parseHead } from "../../src/lib/frames.ts";
import type { Connection } from "../../src/worker-link/connection.ts";
import { Sessions } from "../../src/worker-link/sessions.ts";
import { sweep } from "../../src/worker-link/upkeep.ts";
import type { Work } from "../../src/worker-link/work.ts";
import { newJob } from "../conformance/queue.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";
import { openLink, type Peer } from "./link-rig.ts";
import { QUIET_HOOKS } from "./quiet-hooks.ts";

type Rig = Awaited<ReturnType<typeof openLink>>;

const PENDING_MS = 20_000;

function heldBy(frame: Frame): HeldJob {
  const { job, fence } = parseHead<{ job: string; fence: number }>(frame);
  return { channel: frame.channel, job, fence, heldMs: 5 };
}

const succeed = (peer: Peer, channel: number) =>
  peer.send(FRAME.RESULT, channel, { ok: true, execMs: 1 }, Buffer.from("1"));

async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await delay(5);
}

/** A worker with jobs in its hands. */
async function busy(t: TestContext, slots: number, jobs: number, hooks: Parameters<typeof openLink>[2] = {}) {
  const rig = await openLink(t, { maxConcurrency: slots }, hooks);
  const worker = await rig.addWorker();
  const peer = await rig.dial();
  peer.hello(worker.token);
  peer.send(FRAME.CREDIT, 0, { slots });
  const held: HeldJob[] = [];
  for (let n = 0; n < jobs; n++) {
    await rig.queue.enqueue(newJob(rig.endpoint.id));
    held.push(heldBy(await peer.next(FRAME.JOB)));
  }
  const back = async (unacknowledged: HeldJob[]) => {
    const next = await rig.dial();
    next.hello(worker.token, { unacknowledged });
    return next;
  };
  return { ...rig, worker, peer, held, back };
}

test("A worker that is back hears WELCOME before it gets jobs, and their results count", async (t) => {
  const { peer, held, back, queue } = await busy(t, 5, 3);
  peer.socket.destroy();
  const again = await back([held[0]!]);
  const channels = [held[0]!.channel];
  for (const lost of held.slice(1)) {
    const job = await again.next(FRAME.JOB);
    assert.equal(parseHead<HeldJob>(job).job, lost.job);
    channels.push(job.channel);
  }
  assert.equal(again.seen[0]!.type, FRAME.WELCOME);
  for (const channel of channels) succeed(again, channel);
  for (const { job: id } of held) assert.equal((await queue.wait(id, PENDING_MS))?.state, "COMPLETED");
});

test("A job that was given to another while its worker was away is cancelled there, and holds its slot until it stops", async (t) => {
  const { peer, held, back, queue } = await busy(t, 1, 1);
  const [given] = held as [HeldJob];
  peer.socket.destroy();
  await until(async () => (await queue.find(given.job))?.state === "IN_QUEUE");
  const again = await back(held);
  again.send(FRAME.CREDIT, 0, { slots: 1 });
  const cancel = await again.next(FRAME.CANCEL);
  assert.equal(cancel.channel, given.channel);
  again.send(FRAME.PING, 0);
  assert.ok(!again.seen.some(({ type }) => type === FRAME.JOB));
  again.send(FRAME.RESULT, given.channel, { ok: false }, Buffer.from('"cancelled"'));
  const job = await again.next(FRAME.JOB);
  assert.ok(again.seen.some(({ type, channel }) => type === FRAME.ACK && channel === given.channel));
  assert.notEqual(job.channel, given.channel);
  succeed(again, job.channel);
  assert.equal((await queue.wait(given.job, PENDING_MS))?.state, "COMPLETED");
});

/** Its launcher says that it lives, until told otherwise. */
function vouchedFor() {
  const launcher = { asked: 0, alive: [] as string[] };
  const aliveWorkers = async () => {
    launcher.asked += 1;
    return launcher.alive;
  };
  return { launcher, aliveWorkers };
}

test("A worker whose link is cut while its function holds up the process keeps its job as long as its launcher says that it lives", async (t) => {
  const { launcher, aliveWorkers } = vouchedFor();
  const { peer, held, back, queue, worker, join } = await busy(t, 1, 1, { aliveWorkers });
  const [given] = held as [HeldJob];
  launcher.alive = [worker.id];
  const other = await join();
  peer.socket.destroy();
  await until(() => launcher.asked >= 2);
  assert.equal((await queue.find(given.job))?.workerId, worker.id);
  const again = await back(held);
  succeed(again, given.channel);
  const done = await queue.wait(given.job, PENDING_MS);
  assert.deepEqual([done?.state, done?.retries, done?.workerId], ["COMPLETED", 0, worker.id]);
  assert.ok(!other.peer.seen.some(({ type }) => type === FRAME.JOB));
});

test("A worker that is away and that its launcher does not know any more loses its job to another", async (t) => {
  const { launcher, aliveWorkers } = vouchedFor();
  const { peer, held, queue, worker, join } = await busy(t, 1, 1, { aliveWorkers });
  launcher.alive = [worker.id];
  const other = await join();
  peer.socket.destroy();
  await until(() => launcher.asked >= 1);
  launcher.alive = [];
  succeed(other.peer, (await other.peer.next(FRAME.JOB)).channel);
  const done = await queue.wait(held[0]!.job, PENDING_MS);
  assert.deepEqual([done?.state, done?.retries, done?.workerId], ["COMPLETED", 1, other.id]);
});

test("The execution time-out ends the job of a worker that is away, and that it did not obey is said", async (t) => {
  const { launcher, aliveWorkers } = vouchedFor();
  const stuck = Promise.withResolvers<string>();
  const rig = await openLink(t, {}, { aliveWorkers, workerStuck: stuck.resolve });
  const { id, peer } = await rig.join();
  launcher.alive = [id];
  const job = await rig.queue.enqueue(newJob(rig.endpoint.id, { executionTimeoutMs: 1 }));
  await peer.next(FRAME.JOB);
  peer.socket.destroy();
  assert.equal((await rig.queue.wait(job.id, PENDING_MS))?.state, "TIMED_OUT");
  assert.equal(await stuck.promise, id);
});

test("What waits behind the job of a worker that is away goes to others, and a worker that drains is told again when it is back", async (t) => {
  const { launcher, aliveWorkers } = vouchedFor();
  const { peer, held, back, queue, worker, join, endpoint, link } = await busy(t, 1, 1, { aliveWorkers });
  launcher.alive = [worker.id];
  let running = held[0]!;
  for (let n = 0; n < 20; n++) {
    succeed(peer, running.channel);
    await queue.enqueue(newJob(endpoint.id));
    running = heldBy(await peer.next(FRAME.JOB));
  }
  const behind = (await queue.enqueue(newJob(endpoint.id))).id;
  assert.equal(heldBy(await peer.next(FRAME.JOB)).job, behind);
  const other = await join();
  peer.socket.destroy();
  assert.equal(heldBy(await other.peer.next(FRAME.JOB)).job, behind);
  assert.equal((await queue.find(running.job))?.workerId, worker.id);
  link().drain(worker.id, 1);
  const again = await back([running]);
  await again.next(FRAME.DRAIN);
  succeed(again, running.channel);
  assert.equal((await queue.wait(running.job, PENDING_MS))?.state, "COMPLETED");
});

test("A job that its caller cancelled while its worker was away is cancelled when that is back", async (t) => {
  const { peer, held, back, queue } = await busy(t, 1, 1);
  peer.socket.destroy();
  await queue.cancel(held[0]!.job);
  const again = await back(held);
  assert.equal((await again.next(FRAME.CANCEL)).channel, held[0]!.channel);
});

for (const known of [1, 0])
  test(`A worker that is back at a new platform with ${known} of its two jobs goes on, and what it does not know goes to the queue`, async (t) => {
    const { held, back, queue, restart } = await busy(t, 2, 2);
    await restart();
    const again = await back(held.slice(0, known));
    again.send(FRAME.CREDIT, 0, { slots: 2 });
    const channels = held.slice(0, known).map(({ channel }) => channel);
    while (channels.length < 2) channels.push((await again.next(FRAME.JOB)).channel);
    for (const channel of channels) succeed(again, channel);
    for (const { job: id } of held) {
      const done = await queue.wait(id, PENDING_MS);
      assert.deepEqual([done?.state, done?.retries], ["COMPLETED", 0]);
    }
  });

test("A worker that says what it holds and is gone again loses it to the queue", async (t) => {
  const { peer, held, back, queue, join } = await busy(t, 1, 1);
  peer.socket.destroy();
  const again = await back(held);
  again.socket.destroy();
  const other = await join();
  const job = await other.peer.next(FRAME.JOB);
  succeed(other.peer, job.channel);
  const done = await queue.wait(held[0]!.job, PENDING_MS);
  assert.deepEqual([done?.state, done?.workerId], ["COMPLETED", other.id]);
});

test("A worker that ends with its machine's launcher while it says what it holds has not failed a job", async (t) => {
  const { worker, held, back, queue, restart, link } = await busy(t, 1, 1);
  await restart();
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const claimsOf = queue.claimsOf.bind(queue);
  queue.claimsOf = async (id) => {
    asked.resolve();
    await gate.promise;
    return claimsOf(id);
  };
  const again = await back(held);
  await asked.promise;
  again.socket.destroy();
  await again.closed;
  await link().workerExited(worker.id, "its launcher ended", "machine");
  gate.resolve();
  await until(async () => (await queue.find(held[0]!.job))?.state === "IN_QUEUE");
  assert.equal((await queue.find(held[0]!.job))?.retries, 0);
});

test("A job that loses its worker with a machine that does not answer is lost: it may be what brought that down", async (t) => {
  const { worker, held, queue, link } = await busy(t, 1, 1);
  await link().workerExited(worker.id, "its machine one does not answer", "silence");
  await until(async () => (await queue.find(held[0]!.job))?.state === "IN_QUEUE");
  assert.equal((await queue.find(held[0]!.job))?.retries, 1);
});

test("However old a worker is, after a reconnect it has time for its CREDIT", (t) => {
  let now = 5_000_000;
  t.mock.method(performance, "now", () => now);
  const stuck: string[] = [];
  const sessions = new Sessions(
    QUIET_HOOKS,
    () => {},
    () => now,
  );
  const connection = { isOpen: true } as Connection;
  sessions.open(newWorker("e", { id: "w", createdAt: Date.now() - 86_400_000 }), newEndpoint(null), connection);
  const look = () => sweep(sessions, { workerStuck: (id) => stuck.push(id) });
  look();
  now += WORKER_BOOT_TIMEOUT_MS;
  look();
  assert.deepEqual(stuck, []);
  now += 1;
  look();
  assert.deepEqual(stuck, ["w"]);
});

test("Of many works that are cancelled at once the last has time while others end; a worker that ends none is stuck", (t) => {
  let now = 5_000_000;
  t.mock.method(performance, "now", () => now);
  const stuck: string[] = [];
  const sessions = new Sessions(
    QUIET_HOOKS,
    () => {},
    () => now,
  );
  const connection = { isOpen: true, send: () => {} } as unknown as Connection;
  const session = sessions.open(newWorker("e", { id: "w", createdAt: Date.now() }), newEndpoint(null), connection);
  session.slots = 100;
  const works = Array.from({ length: 100 }, (_, channel) => {
    const work = { channel, inputBytes: 0, timeoutMs: 1e9, startedAt: now, endedAt: null, end: () => {} };
    return work as unknown as Work;
  });
  for (const work of works) session.add(work);
  for (const work of works) session.end(work, "disconnected");
  const look = () => sweep(sessions, { workerStuck: (id) => stuck.push(id) });
  for (const done of [1, 2, 3]) {
    now += CANCEL_GRACE_MS;
    session.remove(works[done]!);
    look();
  }
  assert.deepEqual(stuck, []);
  // What one sends on is as good: it has not read its cancel yet.
  now += CANCEL_GRACE_MS;
  session.sentOn(works[0]!);
  now += CANCEL_GRACE_MS;
  look();
  assert.deepEqual(stuck, []);
  now += 1;
  look();
  assert.deepEqual(stuck, ["w"], "now none moved for so long");
  stuck.length = 0;
  for (let done = 4; stuck.length === 0; done++) {
    now += CANCEL_GRACE_MS;
    session.remove(works[done]!);
    look();
  }
  assert.ok(now - 5_000_000 > CANCEL_MANY_MAX_MS, "nor may the last take for ever");
});

/** Answers PING as workers do. */
function attentive(peer: Peer): void {
  void peer.next(FRAME.PING).then(
    () => {
      peer.send(FRAME.PONG, 0);
      attentive(peer);
    },
    () => {},
  );
}

async function takesJobs({ queue, endpoint }: Rig, peer: Peer): Promise<void> {
  const { id } = await queue.enqueue(newJob(endpoint.id));
  succeed(peer, (await peer.next(FRAME.JOB)).channel);
  assert.equal((await queue.wait(id, PENDING_MS))?.state, "COMPLETED");
}

test("Another process with a worker's token does not get its place while the worker answers, and its coming and going changes nothing", async (t) => {
  const rig = await openLink(t);
  const worker = await rig.join();
  for (let times = 0; times < 2; times++) {
    const other = await rig.dial();
    other.hello(worker.token);
    await worker.peer.next(FRAME.PING);
    worker.peer.send(FRAME.PONG, 0);
    await other.closed;
    assert.deepEqual(other.seen, []);
  }
  const hasty = await rig.dial();
  hasty.hello(worker.token);
  attentive(worker.peer);
  hasty.socket.destroy();
  await hasty.closed;
  await takesJobs(rig, worker.peer);
});

test("A worker that is back before its broken link was noticed takes its own place", async (t) => {
  const rig = await openLink(t);
  const worker = await rig.join();
  const again = await rig.dial();
  again.hello(worker.token);
  await again.next(FRAME.WELCOME);
  again.send(FRAME.CREDIT, 0, { slots: 1 });
  await worker.peer.closed;
  await takesJobs(rig, again);
});

test("A link whose peer reads nothing any more is closed all the same", async (t) => {
  const rig = await openLink(t, { kind: "load-balanced" });
  const silent = await rig.join();
  silent.peer.socket.pause();
  const answer = rig.request(Buffer.alloc(8 * 1024 * 1024));
  const lost = assert.rejects(answer, { code: "WORKER_LOST" });
  await rig.link().close();
  silent.peer.socket.resume();
  await silent.peer.closed;
  await rig.link().workerExited(silent.id, "it was silent");
  await lost;
});

test("A worker of replaced code is refused once the platform knows that its exit is no failure", async (t) => {
  const known = Promise.withResolvers<string>();
  const rig = await openLink(
    t,
    { name: "live-hello", revision: "new" },
    {
      workerReplaced: async (id) => {
        await delay(20);
        known.resolve(id);
      },
    },
  );
  const worker = await rig.addWorker({ revision: "old" });
  const peer = await rig.dial();
  peer.hello(worker.token);
  const order = await Promise.race([known.promise, peer.next(FRAME.REFUSED)]);
  assert.equal(order, worker.id);
  await peer.closed;
});

test("Callers who wait do not hear that code cannot start which was replaced meanwhile", async (t) => {
  const rig = await openLink(t, { kind: "load-balanced", revision: "new" });
  const answer = rig.request(Buffer.from("{}"));
  const error = new SvcError("BOOT_FAILED", "It ended while it started.");
  await rig.link().failWaiting({ endpointId: rig.endpoint.id, revision: "old" }, error);
  assert.equal(rig.link().sample(rig.endpoint.id).waitingRequests, 1);
  await rig.link().failWaiting({ endpointId: rig.endpoint.id, revision: "new" }, error);
  await assert.rejects(answer, { code: "BOOT_FAILED" });
});

test("A worker may hold more jobs than the head of its HELLO has room for", async (t) => {
  const { worker, held, queue, restart, dial } = await busy(t, 1000, 1);
  await restart();
  const more = Array.from({ length: 999 }, (_, n) => ({
    channel: n + 10,
    job: crypto.randomUUID(),
    fence: 1,
    heldMs: 1,
  }));
  const again = await dial();
  const head = { protocol: PROTOCOL_VERSION, role: "worker", token: worker.token, pid: 1 };
  again.send(FRAME.HELLO, 0, head, Buffer.from(JSON.stringify([...held, ...more])));
  for (const { channel } of more) assert.equal((await again.next(FRAME.CANCEL)).channel, channel);
  succeed(again, held[0]!.channel);
  assert.equal((await queue.wait(held[0]!.job, PENDING_MS))?.state, "COMPLETED");
});
