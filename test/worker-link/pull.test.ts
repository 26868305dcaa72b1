/** Workers that pull their jobs over HTTP, played request by request: built to docs/reference/pull-workers.md, not to a client. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { rawCall } from "../security/raw-http.ts";
import { openPull } from "./pull-rig.ts";

/** Where a question is to end by its time alone. */
const SHORT_HOLD_MS = 300;

const TEXT = (bytes: Uint8Array | null | undefined) => (bytes ? Buffer.from(bytes).toString() : bytes);

test("A job is taken, reported on and done; the bytes of input and output stay as they are", async (t) => {
  const ready: string[] = [];
  const rig = await openPull(t, { workerReady: ({ id }) => ready.push(id) });
  const worker = await rig.join();
  assert.deepEqual(rig.link().sample(rig.endpoint.id).workers, []);
  const job = await rig.submit({ n: 1 });
  const taken = await worker.take({ query: "&job_in_progress=0" });
  assert.equal(taken.text, `{"id":"${job}","input":{"n":1}}`);
  assert.deepEqual(ready, [worker.id], "its first question makes it ready");
  assert.equal((await rig.queue.find(job))!.state, "IN_PROGRESS");
  assert.equal(rig.link().sample(rig.endpoint.id).running, 1);
  assert.ok(rig.link().bootOf(worker.id)!.importMs >= 0);

  assert.equal((await worker.done(job, { status: "IN_PROGRESS", output: { half: true } })).status, 200);
  assert.equal(TEXT((await rig.queue.find(job))!.output), '{"half":true}');
  assert.equal((await worker.send("job-stream", { job, body: { output: "a" } })).status, 200);
  assert.equal((await worker.send("job-stream", { job, body: { output: "a" } })).status, 200, "the same once more");
  const { chunks } = (await rig.queue.readChunks(job, 0, 0))!;
  assert.deepEqual(chunks.map(TEXT), ['"a"', '"a"']);

  const body = '{"output": {"big": 12345678901234567890, "one": 1.0}, "stopPod": false}';
  for (let attempt = 0; attempt < 3; attempt++) assert.equal((await worker.done(job, body)).status, 200);
  const done = (await rig.queue.find(job))!;
  assert.equal(done.state, "COMPLETED");
  assert.equal(TEXT(done.output), '{"big": 12345678901234567890, "one": 1.0}');
  const late = await worker.done(job, { status: "IN_PROGRESS", output: "late" });
  assert.deepEqual([late.status, TEXT((await rig.queue.find(job))!.output)], [200, TEXT(done.output)]);
  const { running, workers } = rig.link().sample(rig.endpoint.id);
  assert.deepEqual([running, workers.map(({ ready, busy }) => [ready, busy])], [0, [[true, false]]]);
});

test("Each body of job-done ends the job as it says", async (t) => {
  const left: string[] = [];
  const rig = await openPull(t, { workerLeaves: (id) => left.push(id) });
  const worker = await rig.join();
  const exception = JSON.stringify({ error_type: "<class 'ValueError'>", error_message: "bad", worker_id: "w" });
  const cases: [unknown, string, string | null, string][] = [
    [{ output: [1, 2] }, "COMPLETED", "[1,2]", ""],
    [{ output: false }, "COMPLETED", "false", ""],
    [{}, "COMPLETED", "null", ""],
    [{ error: "in words" }, "FAILED", null, "in words"],
    [{ error: exception }, "FAILED", null, exception],
    [{ error: "with what there is", output: { part: 1 } }, "FAILED", '{"part":1}', "with what there is"],
    [{ error: { code: 7 } }, "FAILED", null, '{"code":7}'],
    [{ output: [], stopPod: true }, "COMPLETED", "[]", ""],
  ];
  for (const [body, state, output, error] of cases) {
    const job = await rig.submit({});
    assert.equal((await worker.take()).json.id, job);
    assert.equal((await worker.done(job, body)).status, 200, JSON.stringify(body));
    const ended = (await rig.queue.find(job))!;
    assert.deepEqual([ended.state, TEXT(ended.output), ended.error], [state, output, error]);
  }
  assert.deepEqual(left, [worker.id]);
  for (const body of ['{"output": NaN}', "", "[1]", '{"output": "\ud800"'.slice(0, 9)]) {
    const job = await rig.submit({});
    await worker.take();
    const answer = await worker.done(job, body);
    assert.equal(answer.status, 400, answer.text);
    const { state, error } = (await rig.queue.find(job))!;
    assert.equal(state, "FAILED");
    assert.match(error, /The worker sent a result that cannot be read: it is not/);
  }
});

test("An exception is tried again where the endpoint wants retries, an error that was returned is not", async (t) => {
  const rig = await openPull(t, {}, { retriesMax: 1, retryDelayMs: 0 });
  const worker = await rig.join();
  const job = await rig.submit({});
  for (const state of ["IN_QUEUE", "FAILED"]) {
    assert.equal((await worker.take()).json.id, job);
    await worker.done(job, { error: JSON.stringify({ error_type: "E", error_message: "m" }) });
    const now = (await rig.queue.find(job))!;
    assert.equal(now.state, state);
  }
  const other = await rig.submit({});
  await worker.take();
  await worker.done(other, { error: "no" });
  assert.equal((await rig.queue.find(other))!.state, "FAILED");
});

test("Questions are held, and end with 204", async (t) => {
  const rig = await openPull(t, {}, {}, SHORT_HOLD_MS);
  const worker = await rig.join();
  const began = performance.now();
  assert.deepEqual([(await worker.take()).status, (await worker.send("job-stop")).status], [204, 204]);
  assert.ok(performance.now() - began >= 2 * SHORT_HOLD_MS - 10, "each was held");
});

test("A batch has as many jobs as fit", async (t) => {
  const rig = await openPull(t);
  const worker = await rig.join();
  const waiting = worker.send("job-take-batch", { query: "&batch_size=3&job_in_progress=0" });
  const first = await rig.submit({ n: 1 });
  assert.deepEqual((await waiting).json, [{ id: first, input: { n: 1 } }]);
  const more = [await rig.submit({ n: 2 }), await rig.submit({ n: 3 }), await rig.submit({ n: 4 })];
  const batch = await worker.send("job-take-batch", { query: "&batch_size=2&job_in_progress=1" });
  assert.deepEqual(
    batch.json.map(({ id }: { id: string }) => id),
    more.slice(0, 2),
  );
  assert.equal((await worker.send("job-take-batch", { query: "&batch_size=many" })).status, 400);
  assert.equal(rig.link().sample(rig.endpoint.id).running, 3);
});

test("A worker reaches its own id and the jobs of its own endpoint, and nobody else reaches these routes", async (t) => {
  const rig = await openPull(t);
  const other = await rig.addEndpoint();
  const [worker, beside, elsewhere] = [await rig.join(), await rig.join(), await rig.join({}, other)];
  const job = await rig.submit({});
  await worker.take();
  const strangers: [string, Parameters<typeof worker.send>[1]][] = [
    ["the token of another worker", { key: beside.token }],
    ["another worker's id", { at: beside.id }],
    ["another endpoint", { endpointId: other.id }],
    ["an unknown token", { key: "svcw_nobody" }],
    ["no token", { key: "" }],
    ["a worker that is not there", { at: "w-none" }],
  ];
  for (const [what, sent] of strangers) {
    for (const route of ["job-take", "job-stop", "ping", "job-done", "job-stream"]) {
      const posts = route === "job-done" || route === "job-stream";
      const answer = await worker.send(route, { ...sent, ...(posts ? { job, body: { output: 1 } } : {}) });
      assert.ok([401, 403].includes(answer.status), `${what}: ${route} ${answer.status}`);
    }
  }
  // Their own ids, a job that is not theirs.
  for (const one of [beside, elsewhere]) {
    assert.equal((await one.done(job, { output: "stolen" })).status, 200);
    assert.equal((await one.send("job-stream", { job, body: { output: "stolen" } })).status, 200);
  }
  assert.equal((await rig.queue.find(job))!.state, "IN_PROGRESS");
  assert.deepEqual((await rig.queue.readChunks(job, 0, 0))!.chunks, []);
  await worker.done(job, { output: "own" });
  assert.equal(TEXT((await rig.queue.find(job))!.output), '"own"');

  const url = `http://127.0.0.1:${rig.port()}`;
  const of = `/v2/${rig.endpoint.id}`;
  const authorization = { Authorization: worker.token };
  for (const [method, path, status] of [
    ["POST", `${of}/job-take/${worker.id}?gpu=x`, 405],
    ["GET", `${of}/job-done/${worker.id}/${job}?gpu=x`, 405],
    ["GET", `${of}/job-take/${worker.id}/${job}`, 404],
    ["POST", `${of}/job-done/${worker.id}`, 404],
    ["GET", `${of}/job-take/..%2f..%2f${worker.id}`, 403],
  ] as const) {
    assert.equal((await rawCall(url, { method, path, headers: authorization })).status, status, path);
  }
});

test("A worker whose functions are ours does not pull: its token opens none of this", async (t) => {
  const rig = await openPull(t);
  const worker = await rig.join({ buildId: "a build that names no such program" });
  await rig.submit({});
  assert.equal((await worker.take()).status, 403);
});

test("A question whose connection goes takes no job, wherever it is cut", async (t) => {
  const rig = await openPull(t);
  const worker = await rig.join();
  const path = `/v2/${rig.endpoint.id}/job-take/${worker.id}?gpu=x&job_in_progress=0`;
  const ask = async (text = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${worker.token}\r\n\r\n`) => {
    const socket = connect(rig.port(), "127.0.0.1");
    await once(socket, "connect");
    socket.write(text);
    return socket;
  };
  const waits = () => eventually(() => assert.equal(rig.link().sample(rig.endpoint.id).workers.length, 1));

  // In the middle of its head; while it waits; with the job on its way.
  (await ask(`GET ${path} HTTP/1.1\r\nHo`)).destroy();
  const waiting = await ask();
  await waits();
  waiting.destroy();
  const half = await ask();
  const job = await rig.submit({ text: "x".repeat(5_000_000) });
  await once(half, "readable");
  half.read(100);
  half.destroy();
  // A reset, before anything of it was read.
  const reset = await ask();
  await eventually(async () => assert.equal((await rig.queue.find(job))!.state, "IN_PROGRESS"));
  reset.resetAndDestroy();

  const taken = await eventually(async () => {
    const answer = await worker.take({ query: "&job_in_progress=0" });
    assert.equal(answer.status, 200);
    return answer;
  });
  assert.equal(taken.json.id, job);
  const { retries } = (await rig.queue.find(job))!;
  assert.equal(retries, 0, "it was never begun, so nothing was lost");
  await worker.done(job, { output: 1 });
  assert.equal((await rig.queue.find(job))!.state, "COMPLETED");
});

test("A newer question takes the place of one that nobody reads any more", async (t) => {
  const rig = await openPull(t);
  const worker = await rig.join();
  const path = `/v2/${rig.endpoint.id}/job-take/${worker.id}?gpu=x`;
  const forgotten = connect(rig.port(), "127.0.0.1");
  t.after(() => forgotten.destroy());
  forgotten.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${worker.token}\r\n\r\n`);
  await eventually(() => assert.equal(rig.link().sample(rig.endpoint.id).workers.length, 1));
  const second = worker.take();
  assert.match(String((await once(forgotten, "data"))[0]), /^HTTP\/1\.1 204/);
  const job = await rig.submit({});
  assert.equal((await second).json.id, job);
});

test("A chunk that is sent again because its answer was lost is stored once", async (t) => {
  const rig = await openPull(t);
  const worker = await rig.join();
  const job = await rig.submit({});
  await worker.take();
  const body = '{"output":"a"}';
  const text = `POST /v2/${rig.endpoint.id}/job-stream/${worker.id}/${job}?gpu=x HTTP/1.1\r\nHost: x\r\nAuthorization: ${worker.token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const socket = connect(rig.port(), "127.0.0.1");
  const [theirs] = (await once(rig.gateway().server, "connection")) as [Socket];
  socket.pause();
  socket.write(text);
  const stored = async () => (await rig.queue.readChunks(job, 0, 0))!.chunks.map(TEXT);
  await eventually(async () => assert.deepEqual(await stored(), ['"a"']));
  // The connection breaks before it has read the answer.
  const broken = new Promise((resolve) => theirs.once("close", resolve));
  socket.resetAndDestroy();
  await broken;
  assert.equal((await worker.send("job-stream", { job, body })).status, 200);
  await worker.send("job-stream", { job, body: { output: "b" } });
  await worker.send("job-stream", { job, body: { output: "b" } });
  assert.deepEqual(await stored(), ['"a"', '"b"', '"b"'], "what is the same and arrived is no repetition");
});

test("A cancelled job is to be stopped, again and again, until its worker does not list it any more", async (t) => {
  const stuck: string[] = [];
  const rig = await openPull(t, { workerStuck: (id) => stuck.push(id) }, {}, 5_000);
  const worker = await rig.join();
  const job = await rig.submit({});
  await worker.take();
  const question = worker.send("job-stop");
  const began = performance.now();
  assert.equal((await rig.queue.cancel(job))!.state, "CANCELLED");
  assert.deepEqual((await question).json, { jobsToStop: [job] });
  assert.deepEqual((await worker.send("job-stop")).json, { jobsToStop: [job] });
  assert.ok(performance.now() - began > 900, "at most once a second");
  await worker.ping(job);
  assert.equal(rig.link().sample(rig.endpoint.id).running, 1, "its place is taken until it is known to be free");
  rig.later(1_500);
  await worker.ping();
  assert.equal(rig.link().sample(rig.endpoint.id).running, 0);
  assert.equal((await worker.send("job-stop")).status, 204);
  assert.equal((await worker.done(job, { output: "late" })).status, 200);
  assert.equal((await rig.queue.find(job))!.state, "CANCELLED");

  // One that cannot be stopped: its worker is replaced after the grace.
  const stubborn = await rig.submit({});
  await worker.take();
  await rig.queue.cancel(stubborn);
  await worker.ping(stubborn);
  rig.later(14_000);
  assert.deepEqual(stuck, []);
  await worker.ping(stubborn);
  rig.later(2_000);
  assert.deepEqual(stuck, [worker.id]);
});

test("A job beyond its time is TIMED_OUT and stopped; its worker's next question says that it is free", async (t) => {
  const rig = await openPull(t, {}, {}, SHORT_HOLD_MS);
  const worker = await rig.join();
  const job = await rig.submit({}, { executionTimeoutMs: 5_000 });
  await worker.take();
  rig.later(5_001);
  assert.deepEqual((await worker.send("job-stop")).json, { jobsToStop: [job] });
  await eventually(async () => assert.equal((await rig.queue.find(job))!.state, "TIMED_OUT"));
  await worker.take({ query: "&job_in_progress=0" });
  assert.equal(rig.link().sample(rig.endpoint.id).running, 0);
});

test("What a worker does not list any more is lost, and goes to another; a late result changes nothing", async (t) => {
  const rig = await openPull(t);
  const [worker, other] = [await rig.join(), await rig.join()];
  const job = await rig.submit({});
  await worker.take();
  await worker.ping(job);
  rig.later(30_000);
  await worker.ping();
  assert.equal((await rig.queue.find(job))!.state, "IN_PROGRESS");
  rig.later(6_000);
  assert.equal((await other.take()).json.id, job);
  assert.equal((await rig.queue.find(job))!.retries, 1);
  assert.equal((await worker.done(job, { output: "late" })).status, 200);
  assert.equal((await worker.done(job, "no json at all")).status, 200);
  assert.equal((await rig.queue.find(job))!.state, "IN_PROGRESS");
  // It lists what is not its own: it is to stop that.
  await worker.ping(job);
  assert.deepEqual((await worker.send("job-stop")).json, { jobsToStop: [job] });
  await other.done(job, { output: "right" });
  assert.equal(TEXT((await rig.queue.find(job))!.output), '"right"');
});

test("A worker that says nothing for long is replaced; one that holds a question open is not", async (t) => {
  const stuck: string[] = [];
  const rig = await openPull(t, { workerStuck: (id, reason) => stuck.push(`${id} ${reason}`) });
  const [silent, asks] = [await rig.join(), await rig.join()];
  await rig.submit({});
  await silent.take();
  const open = new AbortController();
  const question = asks.take({ signal: open.signal }).catch(() => {});
  await eventually(() => assert.equal(rig.link().sample(rig.endpoint.id).workers.length, 2));
  rig.later(36_000);
  open.abort();
  await question;
  assert.deepEqual(stuck, [`${silent.id} nothing was heard of it for 35 s`]);
});

test("A worker that ends loses its jobs; one that fails its own check is no start", async (t) => {
  const failed: unknown[] = [];
  const rig = await openPull(t, {
    bootFailed: (id, failure) => failed.push([id, failure.error_type, failure.error_message]),
  });
  const worker = await rig.join();
  const jobs = [await rig.submit({}), await rig.submit({})];
  await worker.send("job-take-batch", { query: "&batch_size=2" });
  await worker.ping(...jobs);
  await rig.link().workerExited(worker.id, "killed by SIGKILL");
  for (const job of jobs) {
    await eventually(async () => assert.equal((await rig.queue.find(job))!.state, "IN_QUEUE"));
    assert.equal((await rig.queue.find(job))!.retries, 1);
  }
  const sick = await rig.join();
  const answer = await sick.send("ping", { query: "&status=unhealthy&check=_memory&reason=only%201%20GB" });
  assert.equal(answer.status, 200);
  assert.deepEqual(failed, [[sick.id, "_memory", "only 1 GB"]]);
});

test("A worker that is to leave gets no job, is told to end, and still reports what it has begun", async (t) => {
  const ends: [string, number][] = [];
  const rig = await openPull(
    t,
    { workerEnds: (id, graceMs) => ends.push([id, graceMs]) },
    { executionTimeoutMs: 77_000 },
  );
  const worker = await rig.join();
  const job = await rig.submit({});
  await worker.take();
  const questions = [worker.take({ query: "&job_in_progress=1" }), worker.send("job-stop")];
  await eventually(() => assert.equal(rig.link().isConnected(worker.id), true));
  rig.link().drain(worker.id, 30_000);
  for (const { status } of await Promise.all(questions)) assert.equal(status, 204);
  assert.deepEqual(ends, [[worker.id, 77_000]]);
  await rig.submit({});
  assert.equal((await worker.take()).status, 204);
  assert.equal((await worker.done(job, { output: 1 })).status, 200);
  assert.equal((await rig.queue.find(job))!.state, "COMPLETED");
});

test("The platform's end and start lose nothing: questions get 429 and results are taken until the last", async (t) => {
  const rig = await openPull(t);
  const [worker, other] = [await rig.join(), await rig.join()];
  const [first, second, third] = [await rig.submit({}), await rig.submit({}), await rig.submit({})];
  await worker.send("job-take-batch", { query: "&batch_size=2" });
  await other.take();
  await rig.store.workers.update(worker.id, { state: "READY" });
  await rig.store.workers.update(other.id, { state: "READY" });
  const question = worker.take({ query: "&job_in_progress=1" });
  await worker.ping(first!, second!);
  const closing = rig.gateway().close(10_000);
  assert.equal((await question).status, 429);
  await closing;

  await rig.restart();
  assert.equal(rig.link().sample(rig.endpoint.id).running, 3, "it knows what they have");
  assert.equal((await worker.done(first!, { output: "from before" })).status, 200);
  assert.equal((await rig.queue.find(first!))!.state, "COMPLETED");
  // Its result was sent while nobody was there, and is gone: it is not listed any more.
  rig.later(30_000);
  await worker.ping();
  await other.ping(third!);
  rig.later(6_000);
  await eventually(async () => assert.equal((await rig.queue.find(second!))!.state, "IN_QUEUE"));
  assert.equal((await rig.queue.find(third!))!.state, "IN_PROGRESS");
  assert.equal((await rig.queue.cancel(third!))!.state, "CANCELLED");
  assert.deepEqual((await other.send("job-stop")).json, { jobsToStop: [third] });
});

test("A result of 60 MB is stored; of one that is larger the job says so, and the platform goes on", async (t) => {
  const rig = await openPull(t);
  const worker = await rig.join();
  const job = await rig.submit({});
  await worker.take();
  const large = `{"output":"${"x".repeat(60 * 1024 * 1024)}"}`;
  assert.equal((await worker.done(job, large)).status, 200);
  const { state, output } = (await rig.queue.find(job))!;
  assert.deepEqual([state, output!.length], ["COMPLETED", 60 * 1024 * 1024 + 2]);
  const other = await rig.submit({});
  await worker.take();
  assert.equal((await worker.done(other, `{"output":"${"x".repeat(65 * 1024 * 1024)}"}`)).status, 200);
  const failed = (await rig.queue.find(other))!;
  assert.equal(failed.state, "FAILED");
  assert.match(failed.error, /it has more than 67108864 bytes/);
});

test("A worker may name so many strange jobs as it likes: what is kept of them is bounded", async (t) => {
  const rig = await openPull(t, {}, {}, SHORT_HOLD_MS);
  const worker = await rig.join();
  await worker.take();
  for (let round = 0; round < 5; round++) {
    const ids = Array.from({ length: 200 }, (_, n) => `stray-${round}-${n}`);
    assert.equal((await worker.ping(...ids)).status, 200);
  }
  assert.ok(rig.link().sample(rig.endpoint.id).running <= 300);
});
