/** A worker that leaves while work is on its way to it. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { newJob } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
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

test("An answer counts that a worker sent before its process ended, also when its end is heard of first", async (t) => {
  const { join, request, link } = await openLink(t, { kind: "load-balanced" });
  const { id, peer } = await join();
  const answer = request(Buffer.from("hello"));
  const { channel } = await peer.next(FRAME.REQUEST);
  peer.send(FRAME.RESULT, channel, { status: 200, headers: [] }, Buffer.from("done"));
  peer.socket.end();
  // The launcher says so over its own connection, in this very turn.
  const exited = link().workerExited(id, "exited with code 0");
  assert.equal((await answer).body.toString(), "done");
  await exited;
  assert.equal(link().isConnected(id), false);
});

test("A job that was finished before its worker's process ended is not run again", async (t) => {
  const { endpoint, queue, join, link } = await openLink(t, { kind: "queue" });
  const { id: worker, peer } = await join();
  const { id } = await queue.enqueue(newJob(endpoint.id));
  const { channel } = await peer.next(FRAME.JOB);
  peer.send(FRAME.RESULT, channel, { ok: true, execMs: 1 }, Buffer.from("1"));
  peer.socket.end();
  await link().workerExited(worker, "killed by SIGKILL");
  const job = await queue.wait(id, 20_000);
  assert.deepEqual([job?.state, job?.retries, job?.workerId], ["COMPLETED", 0, worker]);
});

test("A connection that outlives its worker's process holds up the loss of its work for a moment alone", async (t) => {
  const { endpoint, queue, join, link } = await openLink(t, { kind: "queue" });
  const { id: worker, peer } = await join();
  const { id } = await queue.enqueue(newJob(endpoint.id));
  await peer.next(FRAME.JOB);
  await link().workerExited(worker, "killed by SIGKILL");
  await eventually(async () => assert.equal((await queue.find(id))?.state, "IN_QUEUE"));
});
