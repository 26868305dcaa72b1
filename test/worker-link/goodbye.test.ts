/** A worker that leaves while work is on its way to it. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { newJob } from "../conformance/queue.ts";
import { openLink } from "./link-rig.ts";

test("A request that a worker never began goes to the next one when it says GOODBYE", async (t) => {
  const { join, request } = await openLink(t, { kind: "load-balanced" });
  const first = await join();
  const answer = request(Buffer.from("hello"));
  await first.peer.next(FRAME.REQUEST);
  first.peer.send(FRAME.GOODBYE, 0, { reason: "stopped" });
  first.peer.socket.end();
  const second = await join();
  const frame = await second.peer.next(FRAME.REQUEST);
  assert.equal(frame.body.toString(), "hello");
  second.peer.send(FRAME.RESULT, frame.channel, { status: 200, headers: [] }, Buffer.from("done"));
  const { status, body, workerId } = await answer;
  assert.deepEqual([status, body.toString(), workerId], [200, "done", second.id]);
});

test("A request whose body streams cannot be given to another worker: its caller is told", async (t) => {
  const { join, request } = await openLink(t, { kind: "load-balanced" });
  const first = await join();
  const body = new Readable({ read() {} });
  body.push(Buffer.from("part"));
  const answer = request(body);
  await first.peer.next(FRAME.REQUEST);
  first.peer.send(FRAME.GOODBYE, 0, { reason: "stopped" });
  await assert.rejects(answer, { code: "WORKER_LOST" });
});

test("A job that a worker never began is queued again as it was when it says GOODBYE", async (t) => {
  const { endpoint, queue, join } = await openLink(t, { kind: "queue" });
  const first = await join();
  const { id } = await queue.enqueue(newJob(endpoint.id));
  await first.peer.next(FRAME.JOB);
  first.peer.send(FRAME.GOODBYE, 0, { reason: "stopped" });
  const second = await join();
  const frame = await second.peer.next(FRAME.JOB);
  second.peer.send(FRAME.RESULT, frame.channel, { ok: true, execMs: 1 }, Buffer.from("1"));
  const job = await queue.wait(id, 20_000);
  assert.deepEqual([job?.state, job?.retries, job?.workerId], ["COMPLETED", 0, second.id]);
});
