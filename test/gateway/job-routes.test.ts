import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClaimedJob } from "../../src/queue/queue.ts";
import { echo, type Platform, startPlatform } from "./support.ts";

const HELLO = { input: { name: "Ada" } };

/** Takes one job by hand, so that the test decides what becomes of it. */
async function takeJob(platform: Platform, endpointId = "jobs"): Promise<ClaimedJob> {
  const [job] = await platform.queue.claim(endpointId, "w-7", 1, AbortSignal.timeout(60_000));
  return job!;
}

async function failedJob(platform: Platform): Promise<string> {
  const { json } = await platform.post("/v2/jobs/run", HELLO);
  await platform.queue.finish(await takeJob(platform), { state: "FAILED", error: '{"error_type":"ValueError"}' });
  return json.id;
}

test("run answers at once with the id and IN_QUEUE, though no worker is there", async (t) => {
  const platform = await startPlatform(t);
  const { status, json } = await platform.post("/v2/jobs/run", HELLO);
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(json), ["id", "status"]);
  assert.match(json.id, /^[0-9a-f-]{36}-l1$/);
  assert.equal(json.status, "IN_QUEUE");
  assert.deepEqual(JSON.parse(Buffer.from((await takeJob(platform)).input).toString()), HELLO.input);
});

test("runsync answers with the final job and the output as the function gave it", async (t) => {
  const platform = await startPlatform(t);
  platform.work(echo);
  const { status, json, text, headers } = await platform.post(
    "/v2/jobs/runsync",
    '{"input": {"a" : 1.0,  "b":"ü\\u00fc", "n":12345678901234567890}}',
  );
  assert.equal(status, 200);
  assert.equal(headers.get("content-type"), "application/json");
  assert.match(json.id, /^sync-[0-9a-f-]{36}-l1$/);
  assert.equal(json.status, "COMPLETED");
  assert.equal(json.workerId, "w-1");
  assert.ok(Number.isInteger(json.delayTime) && Number.isInteger(json.executionTime));
  assert.ok(text.endsWith('"output":{"a" : 1.0,  "b":"ü\\u00fc", "n":12345678901234567890}}'), text);
});

test("an output of a megabyte arrives whole", async (t) => {
  const platform = await startPlatform(t);
  platform.work(echo);
  const text = "é".repeat(500_000);
  const { json } = await platform.post("/v2/jobs/runsync", { input: { text } });
  assert.equal(json.output.text, text);
});

test("runsync answers 200 with the job as it is when the wait is over, and the job goes on", async (t) => {
  const platform = await startPlatform(t);
  const answer = platform.post("/v2/jobs/runsync?wait=1000", HELLO);
  const job = await takeJob(platform);
  const { status, json } = await answer;
  assert.equal(status, 200);
  assert.equal(json.status, "IN_PROGRESS");
  assert.equal(json.id, job.jobId);
  assert.equal(await platform.queue.finish(job, { state: "COMPLETED", output: Buffer.from("1") }), true);
});

test("a caller that leaves a runsync does not end its job", async (t) => {
  const platform = await startPlatform(t);
  const leaving = new AbortController();
  const call = fetch(`${platform.url}/v2/jobs/runsync`, {
    method: "POST",
    headers: { authorization: "Bearer svc_the-key-of-the-tests" },
    body: JSON.stringify(HELLO),
    signal: leaving.signal,
  });
  const job = await takeJob(platform);
  leaving.abort();
  await assert.rejects(call);
  assert.equal(await platform.queue.finish(job, { state: "COMPLETED", output: Buffer.from("1") }), true);
  assert.equal((await platform.get(`/v2/jobs/status/${job.jobId}`)).json.status, "COMPLETED");
});

for (const wait of ["999", "300001", "-1", "1e4", "soon", "1.5", ""]) {
  test(`?wait=${wait} is refused by runsync and status-sync`, async (t) => {
    const platform = await startPlatform(t);
    const { json: job } = await platform.post("/v2/jobs/run", HELLO);
    for (const path of ["/v2/jobs/runsync", `/v2/jobs/status-sync/${job.id}`]) {
      const { status, json } = await platform.post(`${path}?wait=${wait}`, HELLO);
      assert.equal(status, 400);
      assert.match(json.detail, /"wait" must be a whole number from 1000 to 300000/);
    }
  });
}

test("status tells the job in each state, by GET and POST", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  const path = `/v2/jobs/status/${job.id}`;
  const queued = (await platform.get(path)).json;
  assert.deepEqual(
    { ...queued, delayTime: 0 },
    { id: job.id, status: "IN_QUEUE", delayTime: 0, executionTime: 0, workerId: "" },
  );

  const claim = await takeJob(platform);
  await platform.queue.progress(claim, Buffer.from('{"percent":50}'));
  const running = (await platform.post(path)).json;
  assert.equal(running.status, "IN_PROGRESS");
  assert.equal(running.workerId, "w-7");
  assert.deepEqual(running.output, { percent: 50 });

  await platform.queue.finish(claim, { state: "FAILED", error: '{"error_type":"ValueError"}' });
  const failed = (await platform.get(path)).json;
  assert.equal(failed.status, "FAILED");
  assert.deepEqual(JSON.parse(failed.error), { error_type: "ValueError" });
  assert.ok(!("retries" in failed));
  for (const field of ["id", "workerId", "status", "delayTime", "executionTime"]) assert.ok(field in failed, field);
});

test("a job cancelled before any worker had it carries every field, empty or zero", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  const cancelled = await platform.post(`/v2/jobs/cancel/${job.id}`);
  assert.deepEqual(cancelled.json, { id: job.id, status: "CANCELLED" });
  const { json } = await platform.get(`/v2/jobs/status/${job.id}`);
  assert.deepEqual(json, { id: job.id, status: "CANCELLED", delayTime: 0, executionTime: 0, workerId: "" });
});

test("cancelling a final job changes nothing and tells its state", async (t) => {
  const platform = await startPlatform(t);
  platform.work(echo);
  const { json: job } = await platform.post("/v2/jobs/runsync", HELLO);
  const { status, json } = await platform.post(`/v2/jobs/cancel/${job.id}`);
  assert.equal(status, 200);
  assert.deepEqual(json, { id: job.id, status: "COMPLETED" });
});

test("status-sync answers the moment the job is final", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  const answer = platform.get(`/v2/jobs/status-sync/${job.id}?wait=30000`);
  await platform.queue.finish(await takeJob(platform), { state: "COMPLETED", output: Buffer.from('"done"') });
  assert.equal((await answer).json.output, "done");
});

test("retry puts a failed job back with the same id and input", async (t) => {
  const platform = await startPlatform(t);
  const id = await failedJob(platform);
  const { status, json } = await platform.post(`/v2/jobs/retry/${id}`);
  assert.equal(status, 200);
  assert.deepEqual(json, { id, status: "IN_QUEUE" });
  const again = await takeJob(platform);
  assert.equal(again.jobId, id);
  assert.deepEqual(JSON.parse(Buffer.from(again.input).toString()), HELLO.input);
});

test("retry of a job that did not fail is a conflict that names its state", async (t) => {
  const platform = await startPlatform(t);
  platform.work(echo);
  const { json: job } = await platform.post("/v2/jobs/runsync", HELLO);
  const { status, json } = await platform.post(`/v2/jobs/retry/${job.id}`);
  assert.equal(status, 409);
  assert.equal(json.code, "JOB_NOT_RETRYABLE");
  assert.match(json.detail, /COMPLETED/);
});

test("purge-queue deletes the waiting jobs of that endpoint only", async (t) => {
  const platform = await startPlatform(t);
  await platform.post("/v2/jobs/run", HELLO);
  const running = await takeJob(platform);
  const { json: first } = await platform.post("/v2/jobs/run", HELLO);
  await platform.post("/v2/jobs/run", HELLO);
  const { json: other } = await platform.post("/v2/other/run", HELLO);
  assert.deepEqual((await platform.post("/v2/jobs/purge-queue")).json, { removed: 2, status: "completed" });
  assert.equal((await platform.get(`/v2/jobs/status/${first.id}`)).status, 404);
  assert.equal((await platform.get(`/v2/other/status/${other.id}`)).json.status, "IN_QUEUE");
  assert.equal((await platform.get(`/v2/jobs/status/${running.jobId}`)).json.status, "IN_PROGRESS");
});

test("runsync and status-sync say how long the job took", async (t) => {
  const platform = await startPlatform(t);
  platform.work(() => ({ state: "COMPLETED", output: Buffer.from("1") }));
  const answered = await platform.post("/v2/jobs/runsync", { input: {} });
  const looked = await platform.get(`/v2/jobs/status-sync/${answered.json.id}`);
  for (const { headers } of [answered, looked]) assert.match(headers.get("server-timing") ?? "", /exec;dur=/);
});

test("health counts jobs and workers", async (t) => {
  const platform = await startPlatform(t);
  await failedJob(platform);
  await platform.post("/v2/jobs/run", HELLO);
  await takeJob(platform);
  await platform.post("/v2/jobs/run", HELLO);
  assert.deepEqual((await platform.get("/v2/jobs/health")).json, {
    jobs: { completed: 0, failed: 1, inProgress: 1, inQueue: 1, retried: 0 },
    workers: { idle: 1, initializing: 0, ready: 2, running: 1, throttled: 0, unhealthy: 0 },
  });
});

test("output that is no JSON spoils the answer of its own job, and no list of jobs", async (t) => {
  const platform = await startPlatform(t);
  platform.work(() => ({ state: "COMPLETED", output: Buffer.from('1}, {"id":"forged"') }));
  await platform.post("/v2/jobs/runsync", { input: {} });
  const { json } = await platform.get("/v2/jobs/requests");
  assert.equal(json.requests.length, 1);
  assert.notEqual(json.requests[0].id, "forged");
});

test("a job whose result is gone is not found, with when it ended; /requests lists it where that is asked for", async (t) => {
  const platform = await startPlatform(t, {
    settings: { retention: { runMs: 0, runsyncMs: 0, runsyncWaitMs: 0, failedMs: 0 } },
  });
  platform.work(() => ({ state: "COMPLETED", output: Buffer.from("1") }));
  const { json: job } = await platform.post("/v2/jobs/runsync", { input: {} });
  await platform.queue.sweep();
  for (const route of ["status", "status-sync", "stream"]) {
    const { status, json } = await platform.get(`/v2/jobs/${route}/${job.id}`);
    assert.deepEqual([status, json.code], [404, "JOB_NOT_FOUND"], route);
    assert.match(
      json.error,
      new RegExp(`^The job "${job.id}" ended COMPLETED at 20\\d\\d-.*; its input and result are not kept any more\\.`),
    );
  }
  assert.match((await platform.get(`/v2/other/status/${job.id}`)).json.error, /Endpoint "the-other" has no job/);
  assert.equal((await platform.post(`/v2/jobs/retry/${job.id}`)).status, 404);
  assert.deepEqual((await platform.get("/v2/jobs/requests")).json.requests, []);
  const { json } = await platform.get("/v2/jobs/requests?expired=true");
  assert.deepEqual(
    json.requests.map(({ createdAt, executionTime, delayTime, workerId, ...rest }: Record<string, unknown>) => rest),
    [{ id: job.id, status: "COMPLETED", expired: true }],
  );
  assert.equal(json.keptMs.record, 7 * 24 * 3_600_000);
  assert.equal((await platform.get("/v2/jobs/requests?expired=maybe")).status, 400);
});

test("requests lists the jobs newest first, page by page", async (t) => {
  const platform = await startPlatform(t);
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.unshift((await platform.post("/v2/jobs/run", HELLO)).json.id);
  const listed: string[] = [];
  let before = "";
  for (let page = 0; page < 3; page++) {
    const { json } = await platform.get(`/v2/jobs/requests?limit=2${before}`);
    listed.push(...json.requests.map((job: { id: string }) => job.id));
    before = `&before=${json.next}`;
    assert.equal("next" in json, page < 2);
  }
  assert.deepEqual(listed, ids);
  await platform.post(`/v2/jobs/cancel/${ids[0]}`);
  const { json } = await platform.get("/v2/jobs/requests?status=CANCELLED");
  assert.deepEqual(
    json.requests.map((job: { id: string }) => job.id),
    [ids[0]],
  );
  assert.equal((await platform.get("/v2/jobs/requests?status=LOST")).status, 400);
});

test("a repeated Idempotency-Key gives the first job, run only once", async (t) => {
  const platform = await startPlatform(t);
  const header = { "idempotency-key": "order-17" };
  const first = await platform.post("/v2/jobs/run", HELLO, header);
  const second = await platform.post("/v2/jobs/run", { input: { name: "Bob" } }, header);
  assert.equal(second.json.id, first.json.id);
  const elsewhere = await platform.post("/v2/other/run", HELLO, header);
  assert.notEqual(elsewhere.json.id, first.json.id);
  platform.work(echo);
  const waited = await platform.post("/v2/jobs/runsync", HELLO, header);
  assert.equal(waited.json.id, first.json.id);
  assert.deepEqual(waited.json.output, HELLO.input);
  assert.equal((await platform.post("/v2/jobs/run", HELLO, header)).json.status, "COMPLETED");
});

test("an Idempotency-Key of more than 255 characters is refused", async (t) => {
  const platform = await startPlatform(t);
  const { status } = await platform.post("/v2/jobs/run", HELLO, { "idempotency-key": "x".repeat(256) });
  assert.equal(status, 400);
});

test("stream hands out each chunk once, and with the final status all that remains", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  const path = `/v2/jobs/stream/${job.id}`;
  const held = platform.get(path);
  const claim = await takeJob(platform);
  await platform.queue.chunk(claim, Buffer.from('{"token":"a"}'));
  assert.deepEqual((await held).json, { status: "IN_PROGRESS", stream: [{ output: { token: "a" } }] });
  await platform.queue.chunk(claim, Buffer.from("2"));
  await platform.queue.chunk(claim, Buffer.from('"three"'));
  await platform.queue.finish(claim, { state: "COMPLETED", output: Buffer.from('[{"token":"a"},2,"three"]') });
  assert.deepEqual((await platform.post(path)).json, {
    status: "COMPLETED",
    stream: [{ output: 2 }, { output: "three" }],
  });
  assert.deepEqual((await platform.get(path)).json, { status: "COMPLETED", stream: [] });
});

test("a caller of stream that says which chunk it had last gets the ones behind it, as often as it asks", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", { input: {} });
  const [claim] = await platform.queue.claim("jobs", "w-1", 1, AbortSignal.timeout(60_000));
  for (const chunk of ["1", '"two"']) await platform.queue.chunk(claim!, Buffer.from(chunk));
  const path = `/v2/jobs/stream/${job.id}`;
  const first = (await platform.get(`${path}?after=0`)).json;
  assert.deepEqual(first.stream, [{ output: 1 }, { output: "two" }]);
  assert.deepEqual((await platform.get(`${path}?after=0`)).json, first);
  const nothing = (await platform.get(`${path}?after=${first.last}&wait=0`)).json;
  assert.deepEqual(nothing, { status: "IN_PROGRESS", stream: [], last: first.last });
  await platform.queue.chunk(claim!, Buffer.from("3"));
  await platform.queue.finish(claim!, { state: "COMPLETED", output: Buffer.from("[]") });
  const accept = { accept: "text/event-stream" };
  const { text } = await platform.get(path, { ...accept, "last-event-id": String(first.last) });
  const [, number] = /^id: (\d+)\ndata: {"output":3}\n\nevent: status\ndata: {"status":"COMPLETED"}\n\n$/.exec(text)!;
  assert.equal(
    (await platform.get(`${path}?after=${number}`)).text,
    `{"status":"COMPLETED","stream":[],"last":${number}}`,
  );
  // With PostgreSQL numbers have so many digits.
  const far = await platform.get(path, { ...accept, "last-event-id": "7205759403792793" });
  assert.equal(far.text, 'event: status\ndata: {"status":"COMPLETED"}\n\n');
  assert.equal((await platform.get(`${path}?after=0`)).json.stream.length, 3, "nothing was taken away");
  assert.equal((await platform.get(`${path}?after=-1`)).status, 400);
});

test("stream with nothing to hand out answers when its hold is over", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  assert.deepEqual((await platform.get(`/v2/jobs/stream/${job.id}?wait=0`)).json, { status: "IN_QUEUE", stream: [] });
});

test("stream gives the same chunks as server-sent events", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  const claim = await takeJob(platform);
  const response = await fetch(`${platform.url}/v2/jobs/stream/${job.id}`, {
    headers: { authorization: "Bearer svc_the-key-of-the-tests", accept: "text/event-stream" },
  });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  await platform.queue.chunk(claim, Buffer.from('{\n"token": "a"}'));
  assert.equal((await reader.read()).value, 'data: {"output":{ "token": "a"}}\n\n');
  await platform.queue.finish(claim, { state: "COMPLETED", output: Buffer.from("[]") });
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) rest += part.value;
  assert.equal(rest, 'event: status\ndata: {"status":"COMPLETED"}\n\n');
});

test("a job is found only through its own endpoint", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", HELLO);
  for (const route of ["status", "status-sync", "stream", "cancel", "retry"]) {
    for (const path of [`/v2/other/${route}/${job.id}`, `/v2/jobs/${route}/no-such-job`]) {
      const { status, json } = await platform.post(path);
      assert.deepEqual([status, json.code], [404, "JOB_NOT_FOUND"], path);
    }
  }
  assert.equal((await platform.get(`/v2/jobs/status/${job.id}`)).json.status, "IN_QUEUE");
});

test("the policy of the request and the settings of the endpoint reach the queue", async (t) => {
  const platform = await startPlatform(t);
  await platform.post("/v2/jobs/run", { ...HELLO, method: "predict", policy: { executionTimeout: 5000 } });
  const given = await takeJob(platform);
  assert.equal(given.executionTimeoutMs, 5000);
  assert.equal(given.method, "predict");
  await platform.post("/v2/jobs/run", HELLO);
  assert.equal((await takeJob(platform)).executionTimeoutMs, 600_000);
});
