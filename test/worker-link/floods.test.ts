/** Workers that say more than the platform has time for: they are not read from for a while, and nothing of it is lost. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import {
  LINK_BURST_BYTES,
  LINK_FRAME_COST_BYTES,
  LINK_RATE_BYTES_PER_S,
  PREFETCH_MAX_BYTES,
} from "../../src/domain/limits.ts";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { encodeFrame } from "../../src/lib/frames.ts";
import { newJob } from "../conformance/queue.ts";
import { openLink, type Peer } from "./link-rig.ts";

/** What is over the bucket, and fits into no buffer on the way. */
const FLOOD = 70_000;
/** Frames of one read. */
const READ = 65_536 / 12;

async function pour(peer: Peer, bytes: Buffer, times: number): Promise<void> {
  const many = 1_000;
  const batch = Buffer.concat(Array.from({ length: many }, () => bytes));
  for (let sent = 0; sent < times; sent += many) {
    if (!peer.socket.write(batch)) await once(peer.socket, "drain");
  }
}

const frameOf = (...args: Parameters<typeof encodeFrame>) => Buffer.concat(encodeFrame(...args));

test("A worker that floods the platform with lines is held up, others are not, and no line is lost", async (t) => {
  let now = 0;
  let lines = 0;
  const { join, queue, endpoint } = await openLink(
    t,
    {},
    {
      log: () => {
        lines++;
        return undefined;
      },
    },
    () => now,
  );
  await queue.enqueue(newJob(endpoint.id));
  const flooder = await join();
  await flooder.peer.next(FRAME.JOB);
  const poured = pour(flooder.peer, frameOf(FRAME.LOG, 0, { stream: "stdout" }, Buffer.from("x")), FLOOD);
  const most = LINK_BURST_BYTES / LINK_FRAME_COST_BYTES + READ;
  for (let n = 0; n < 20; n++) {
    const honest = await join();
    const { id } = await queue.enqueue(newJob(endpoint.id));
    const { channel } = await honest.peer.next(FRAME.JOB);
    honest.peer.send(FRAME.RESULT, channel, { ok: true }, Buffer.from("1"));
    assert.equal((await queue.wait(id, 60_000))?.state, "COMPLETED");
    honest.peer.socket.destroy();
    await honest.peer.closed;
    assert.ok(lines <= most, `${lines} lines of the flood were taken`);
  }
  // It is listened to again when that is paid, as often as it takes.
  while (lines < FLOOD) {
    now += (LINK_BURST_BYTES / LINK_RATE_BYTES_PER_S) * 1000;
    await new Promise((resolve) => setImmediate(resolve));
  }
  await poured;
  assert.equal(lines, FLOOD);
});

test("A worker gets no more jobs ahead than fit into a bound of bytes", async (t) => {
  const { join, queue, endpoint } = await openLink(t);
  const { peer, id } = await join();
  const run = async () => {
    const job = await peer.next(FRAME.JOB);
    peer.send(FRAME.RESULT, job.channel, { ok: true, execMs: 1 }, Buffer.from("1"));
    await peer.next(FRAME.ACK);
  };
  for (let n = 0; n < 3; n++) {
    await queue.enqueue(newJob(endpoint.id));
    await run();
  }
  const input = Buffer.alloc(Math.ceil(PREFETCH_MAX_BYTES / 2), "x");
  for (let n = 0; n < 6; n++) await queue.enqueue(newJob(endpoint.id, { input }));
  for (let left = 6; left > 0; left--) {
    const held = (await queue.claimsOf(id)).length;
    assert.ok(held <= 3, `${held} jobs of half the bound each are on one worker`);
    await run();
  }
});

test("A worker that reads nothing gathers no jobs in the platform's memory", async (t) => {
  const { join, queue, endpoint } = await openLink(t, { maxConcurrency: 100 });
  const deaf = await join();
  deaf.peer.send(FRAME.CREDIT, 0, { slots: 100 });
  deaf.peer.socket.pause();
  const input = Buffer.alloc(2 * PREFETCH_MAX_BYTES, "x");
  const ids = [];
  for (let n = 0; n < 6; n++) ids.push((await queue.enqueue(newJob(endpoint.id, { input }))).id);
  const other = await join();
  for (let n = 0; n < 4; n++) {
    const { channel } = await other.peer.next(FRAME.JOB);
    other.peer.send(FRAME.RESULT, channel, { ok: true, execMs: 100 }, Buffer.from("1"));
    await other.peer.next(FRAME.ACK);
  }
  assert.ok((await queue.claimsOf(deaf.id)).length <= 2);
});
