import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { INLINE_BODY_MAX_BYTES, SWEEP_BATCH_FILES } from "../../src/domain/limits.ts";
import { BodyFiles, referenceTo } from "../../src/queue/sqlite/body-files.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue, type SqliteQueueUnderTest } from "./open-queue.ts";

const never = new AbortController().signal;
const large = (fill: string) => Buffer.alloc(INLINE_BODY_MAX_BYTES + 1, fill);

async function withQueue(body: (under: SqliteQueueUnderTest, clock: { now: number }) => Promise<void>): Promise<void> {
  const clock = { now: 1_700_000_000_000 };
  const under = await openTestQueue(clock);
  try {
    await body(under, clock);
  } finally {
    await under.close();
  }
}

async function hold(bodies: BodyFiles, bytes: Uint8Array): Promise<string> {
  const reference = referenceTo(bytes);
  await bodies.hold(reference, bytes);
  return reference;
}

function files({ blobDir }: SqliteQueueUnderTest): string[] {
  return readdirSync(blobDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

test("a body of exactly the limit stays in its row, one byte more is a file", () =>
  withQueue(async (under) => {
    await under.queue.enqueue(newJob("e", { input: Buffer.alloc(INLINE_BODY_MAX_BYTES, "x") }));
    assert.deepEqual(files(under), []);
    await under.queue.enqueue(newJob("e", { input: large("x") }));
    assert.equal(files(under).length, 1);
  }));

test("a file goes with the job that names it, not before, and each job has its own", () =>
  withQueue(async (under, clock) => {
    const { queue } = under;
    await queue.enqueue(newJob("e", { input: large("i"), retentionMs: 1_000 }));
    await queue.enqueue(newJob("e", { input: large("i"), retentionMs: 2_000 }));
    for (const claim of await queue.claim("e", "w", 2, never)) {
      await queue.progress(claim, large("p"));
      await queue.chunk(claim, large("c"));
      await queue.finish(claim, { state: "COMPLETED", output: large("o") });
    }
    assert.equal(files(under).length, 8);
    await queue.sweep();
    assert.equal(files(under).length, 6, "the progress was replaced by the output");
    clock.now += 1_000;
    assert.equal(await queue.sweep(), 1);
    await queue.sweep();
    assert.equal(files(under).length, 3);
    clock.now += 1_000;
    assert.equal(await queue.sweep(), 1);
    assert.deepEqual(files(under), []);
  }));

test("a file that lost its end, or has another byte, is damaged, and so is one that an earlier version wrote", () =>
  withQueue(async (under) => {
    const bodies = new BodyFiles(join(under.dir, "bodies"), false);
    const bytes = large("d");
    const digest = createHash("sha256").update(bytes).digest("hex");
    const earlier = `${digest}.${bytes.length}`;
    for (const reference of [await hold(bodies, bytes), earlier]) {
      const name = reference.slice(0, reference.indexOf("."));
      const file = join(under.dir, "bodies", name.slice(0, 2), name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, bytes);
      assert.ok(bytes.equals((await bodies.read(reference))!));
      for (const damaged of [bytes.subarray(1), Buffer.concat([bytes, bytes]), Buffer.alloc(bytes.length), ""]) {
        writeFileSync(file, damaged);
        assert.equal(await bodies.read(reference), undefined);
      }
    }
  }));

test("a job that is refused leaves no file", () =>
  withQueue(async (under) => {
    const job = newJob("e", { input: large("f") });
    await under.queue.enqueue(job);
    await assert.rejects(under.queue.enqueue({ ...job, input: large("s") }), { code: "CONFLICT" });
    assert.equal(files(under).length, 1);
    assert.ok(large("f").equals((await under.queue.input(job.id))!));
  }));

test("files that a crash left without a row are removed by the first sweep", () =>
  withQueue(async (under) => {
    const { id } = await under.queue.enqueue(newJob("e", { input: large("k") }));
    mkdirSync(join(under.blobDir, "ab"), { recursive: true });
    for (const length of [16, 32]) writeFileSync(join(under.blobDir, "ab", "ab".repeat(length)), "left over");
    writeFileSync(join(under.blobDir, "incoming", "half"), "half");
    assert.equal(files(under).length, 4);
    await under.reopen();
    await under.queue.sweep();
    assert.equal(files(under).length, 1);
    assert.ok(large("k").equals((await under.queue.input(id))!));
  }));

test("a file that cannot be removed keeps none of the others, and is tried again by the next sweep", () =>
  withQueue(async (under) => {
    const bodies = new BodyFiles(join(under.dir, "bodies"), false);
    const references = await Promise.all(["1", "2", "3"].map((fill) => hold(bodies, large(fill))));
    const [stuck] = references as [string, string, string];
    const place = join(under.dir, "bodies", stuck.slice(0, 2), stuck.slice(0, stuck.indexOf(".")));
    // A folder in its place is what no removal of a file removes, also not by root.
    rmSync(place);
    mkdirSync(join(place, "in the way"), { recursive: true });
    for (const reference of references) bodies.release(reference);
    await assert.rejects(bodies.sweep(() => false));
    for (const reference of references.slice(1)) assert.ok((await bodies.read(reference)) === undefined);
    rmSync(place, { recursive: true });
    writeFileSync(place, large("1"));
    await bodies.sweep(() => false);
    assert.ok((await bodies.read(stuck)) === undefined);
  }));

test("what was dropped is removed before more is written than may lie about, without a sweep", () =>
  withQueue(async (under) => {
    const dir = join(under.dir, "bodies");
    const bodies = new BodyFiles(dir, false, 3 * (INLINE_BODY_MAX_BYTES + 1));
    const kept = await hold(bodies, large("k"));
    bodies.release(kept);
    let most = 0;
    for (let n = 0; n < 20; n++) {
      await bodies.makeRoom((name) => kept.startsWith(name));
      bodies.release(await hold(bodies, Buffer.alloc(INLINE_BODY_MAX_BYTES + 1, `${n} `)));
      const there = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      most = Math.max(most, there.length);
    }
    assert.ok(most <= 5, `${most} files`);
    assert.ok(large("k").equals((await bodies.read(kept))!));
  }));

test("a first sweep over many files lets others work in between", () =>
  withQueue(async (under) => {
    const dir = join(under.dir, "bodies");
    for (let n = 0; n < 5 * SWEEP_BATCH_FILES; n++) {
      const name = createHash("sha256").update(String(n)).digest("hex");
      mkdirSync(join(dir, name.slice(0, 2)), { recursive: true });
      writeFileSync(join(dir, name.slice(0, 2), name), "");
    }
    let inARow = 0;
    let most = 0;
    let sweeping = true;
    const turns = () => {
      inARow = 0;
      if (sweeping) setImmediate(turns);
    };
    turns();
    await new BodyFiles(dir, false).sweep(() => {
      most = Math.max(most, ++inARow);
      return false;
    });
    sweeping = false;
    assert.ok(most <= SWEEP_BATCH_FILES, `${most} files in one turn`);
    const left = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    assert.deepEqual(left, []);
  }));

test("a sweep does not take a file whose row is not written yet", () =>
  withQueue(async (under) => {
    const bodies = new BodyFiles(join(under.dir, "bodies"), false);
    const [first, second] = await Promise.all([hold(bodies, large("h")), hold(bodies, large("h"))]);
    const nothingNamed = () => false;
    await bodies.sweep(nothingNamed);
    bodies.release(first);
    await bodies.sweep(nothingNamed);
    assert.equal(await bodies.read(first), undefined);
    assert.ok(large("h").equals((await bodies.read(second))!));
    bodies.release(second);
    await bodies.sweep(nothingNamed);
    assert.equal(await bodies.read(second), undefined);
  }));

test("large chunks that are being handed out survive a sweep", () =>
  withQueue(async (under) => {
    const { queue } = under;
    const { id } = await queue.enqueue(newJob("e"));
    const [claim] = await queue.claim("e", "w", 1, never);
    const chunks = ["a", "b", "c", "d", "e", "f", "g", "h"].map(large);
    for (const chunk of chunks) await queue.chunk(claim!, chunk);
    let taking = true;
    const taken = queue.takeChunks(id, 0).finally(() => {
      taking = false;
    });
    while (taking) await queue.sweep();
    const order = (await taken)?.chunks.map((chunk) => chunks.findIndex((sent) => sent.equals(chunk)));
    assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    await queue.sweep();
    assert.deepEqual(files(under), []);
  }));

test("large jobs can be submitted while others are swept", () =>
  withQueue(async (under) => {
    const { queue } = under;
    for (let round = 0; round < 10; round++) {
      await queue.enqueue(newJob("old", { input: large("r") }));
      await queue.forget("old");
      const again = newJob("e", { input: large("r") });
      await Promise.all([queue.enqueue(again), queue.sweep(), queue.sweep()]);
      assert.ok(large("r").equals((await queue.input(again.id))!));
    }
  }));

test("a job whose input file is gone fails with the reason, and the worker gets the next one", () =>
  withQueue(async (under) => {
    const { queue } = under;
    const damaged = newJob("e", { input: large("d") });
    await queue.enqueue(damaged);
    for (const file of files(under)) rmSync(file);
    const claim = queue.claim("e", "w", 1, never);
    const failed = await queue.wait(damaged.id, 10_000);
    assert.deepEqual([failed?.state, failed?.error], ["FAILED", "the job's input is missing or damaged"]);
    const next = newJob("e");
    await queue.enqueue(next);
    assert.equal((await claim)[0]?.jobId, next.id);
    assert.equal((await queue.counts("e")).failed, 1);
  }));

test("a job that is cancelled while its input is found to be lost stays cancelled, and owes one webhook", () =>
  withQueue(async (under, clock) => {
    const { queue } = under;
    const over = new AbortController();
    for (let n = 0; n < 10; n++) {
      const e = `e-${n}`;
      const { id } = await queue.enqueue(newJob(e, { input: large("i"), webhook: "http://127.0.0.1:1/hook" }));
      for (const file of files(under)) rmSync(file);
      const claims = queue.claim(e, "w", 1, over.signal);
      // It is handed out with the commit, and its input looked for.
      while ((await queue.find(id))?.state === "IN_QUEUE") await nextTurn();
      assert.ok(["CANCELLED", "FAILED"].includes((await queue.cancel(id))!.state));
      // The claim waits again once its job is over: whatever ends that is done then.
      const { id: next } = await queue.enqueue(newJob(e));
      const [claim] = await claims;
      assert.equal(claim?.jobId, next);
      await queue.finish(claim!, { state: "COMPLETED", output: Buffer.from("1") });
      const { completed, failed, inProgress, inQueue } = await queue.counts(e);
      const state = (await queue.find(id))!.state;
      assert.deepEqual([completed, failed, inProgress, inQueue], [1, state === "FAILED" ? 1 : 0, 0, 0], state);
    }
    clock.now += 1;
    assert.equal((await queue.dueDeliveries(100, [])).length, 10);
    over.abort();
  }));
