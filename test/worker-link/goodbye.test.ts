/** A worker that leaves while work is on its way to it: the other end is played frame by frame, for it is a matter of order. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { hashSecret } from "../../src/domain/api-key.ts";
import type { EndpointKind } from "../../src/domain/endpoint.ts";
import { FRAME, PROTOCOL_VERSION } from "../../src/domain/worker-protocol.ts";
import type { Frame } from "../../src/lib/frames.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import { Connection } from "../../src/worker-link/connection.ts";
import { WorkerLink } from "../../src/worker-link/worker-link.ts";
import { newJob } from "../conformance/queue.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";
import { QUIET_HOOKS } from "./quiet-hooks.ts";

async function open(t: TestContext, kind: EndpointKind) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-link-"));
  const database = openPlatformDatabase(dir, "normal");
  const store = await openSqliteStore(database);
  const queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock: Date.now });
  const link = new WorkerLink({
    store,
    endpoints: store.endpoints,
    queue,
    hooks: {
      ...QUIET_HOOKS,
      platformUrl: async () => "http://127.0.0.1:1",
      launcherConnected: () => false,
    },
  });
  const socketPath = path.join(dir, "p.sock");
  await link.listen(socketPath);
  const endpoint = newEndpoint(null, { kind });
  await store.endpoints.insert(endpoint);
  const workers: Connection[] = [];
  t.after(async () => {
    for (const worker of workers) worker.close();
    await link.close();
    await queue.close();
    await store.close();
    database.close();
    rmSync(dir, { recursive: true, force: true });
  });

  /** A worker with one slot. `next` resolves with the next frame of a type. */
  async function join() {
    const row = newWorker(endpoint.id, { tokenHash: hashSecret(`token ${workers.length}`) });
    await store.workers.insert(row);
    const socket = connect(socketPath);
    await once(socket, "connect");
    const connection = new Connection(socket);
    const seen: Frame[] = [];
    let look = () => {};
    connection.onFrame = (frame) => {
      seen.push(frame);
      look();
    };
    const next = (type: number) =>
      new Promise<Frame>((resolve) => {
        look = () => {
          const found = seen.findIndex((frame) => frame.type === type);
          if (found !== -1) resolve(seen.splice(found, 1)[0]!);
        };
        look();
      });
    const head = {
      protocol: PROTOCOL_VERSION,
      role: "worker",
      token: `token ${workers.length}`,
      worker: row.id,
      pid: 1,
    };
    workers.push(connection);
    connection.send(FRAME.HELLO, 0, { ...head, unacknowledged: [] });
    connection.send(FRAME.CREDIT, 0, { slots: 1 });
    await next(FRAME.WELCOME);
    return { id: row.id, connection, next };
  }

  const request = (body: Buffer | Readable) =>
    link.forward({
      id: "r1",
      endpointId: endpoint.id,
      method: "POST",
      path: "/",
      query: "",
      headers: [],
      body,
      timeoutMs: 30_000,
      signal: new AbortController().signal,
    });
  return { endpoint, queue, join, request };
}

test("A request that a worker never began goes to the next one when it says GOODBYE", async (t) => {
  const { join, request } = await open(t, "load-balanced");
  const first = await join();
  const answer = request(Buffer.from("hello"));
  await first.next(FRAME.REQUEST);
  first.connection.send(FRAME.GOODBYE, 0, { reason: "stopped" });
  first.connection.close();
  const second = await join();
  const frame = await second.next(FRAME.REQUEST);
  assert.equal(frame.body.toString(), "hello");
  second.connection.send(FRAME.RESULT, frame.channel, { status: 200, headers: [] }, Buffer.from("done"));
  const { status, body, workerId } = await answer;
  assert.deepEqual([status, body.toString(), workerId], [200, "done", second.id]);
});

test("A request whose body streams cannot be given to another worker: its caller is told", async (t) => {
  const { join, request } = await open(t, "load-balanced");
  const first = await join();
  const body = new Readable({ read() {} });
  body.push(Buffer.from("part"));
  const answer = request(body);
  await first.next(FRAME.REQUEST);
  first.connection.send(FRAME.GOODBYE, 0, { reason: "stopped" });
  await assert.rejects(answer, { code: "WORKER_LOST" });
});

test("A job that a worker never began is queued again as it was when it says GOODBYE", async (t) => {
  const { endpoint, queue, join } = await open(t, "queue");
  const first = await join();
  const { id } = await queue.enqueue(newJob(endpoint.id));
  await first.next(FRAME.JOB);
  first.connection.send(FRAME.GOODBYE, 0, { reason: "stopped" });
  const second = await join();
  const frame = await second.next(FRAME.JOB);
  second.connection.send(FRAME.RESULT, frame.channel, { ok: true, execMs: 1 }, Buffer.from("1"));
  const job = await queue.wait(id, 20_000);
  assert.deepEqual([job?.state, job?.retries, job?.workerId], ["COMPLETED", 0, second.id]);
});
