import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { type TestContext, test } from "node:test";
import type { ClaimedJob } from "../../src/queue/queue.ts";
import { eventually } from "../eventually.ts";
import { type Answer, endpoint, KEY, type Platform, startPlatform, WORKER_TOKEN } from "./support.ts";

const CHAT = "/v2/jobs/openai/v1/chat/completions";
const BODY = { model: "m", messages: [{ role: "user", content: "Hello" }] };
const STREAM = { ...BODY, stream: true };

async function takeJob(platform: Platform): Promise<ClaimedJob> {
  const [job] = await platform.queue.claim("jobs", "w-7", 1, AbortSignal.timeout(60_000));
  assert.ok(job, "the call is a job");
  return job;
}

const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const completed = (value: unknown) => ({ state: "COMPLETED", output: json(value) }) as const;

/** A stream whose first chunk is with its caller, and what comes of it. */
async function begun(t: TestContext, first: unknown = "data: 1\n\n") {
  const platform = await startPlatform(t);
  const response = fetch(platform.url + CHAT, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}` },
    body: JSON.stringify(STREAM),
  });
  const job = await takeJob(platform);
  await platform.queue.chunk(job, json(first));
  const answer = await response;
  return { platform, job, answer };
}

/** The error of the last event. */
function errorIn(text: string): { code: string; message: string; type: string } {
  const data = /data: (\{"error":.*\})\n\n$/.exec(text)?.[1];
  assert.ok(data, text);
  return JSON.parse(data).error;
}

test("A call is a job with the route and the body's own bytes; its one value, yielded or returned, is the answer's bytes", async (t) => {
  const platform = await startPlatform(t);
  for (const [output, body] of [
    ['[{"n": 1.0,"big":12345678901234567890}]', '{"n": 1.0,"big":12345678901234567890}'],
    ['{"n": 1.0}', '{"n": 1.0}'],
    [JSON.stringify('{"text": true}'), '{"text": true}'],
  ] as const) {
    const called = platform.post(CHAT, '\ufeff{"model": "m",  "n":12345678901234567890}');
    const job = await takeJob(platform);
    assert.equal(
      Buffer.from(job.input).toString(),
      '{"openai_route":"/v1/chat/completions","openai_input":{"model": "m",  "n":12345678901234567890}}',
    );
    await platform.queue.finish(job, { state: "COMPLETED", output: Buffer.from(output) });
    const { status, headers, text } = await called;
    assert.deepEqual([status, headers.get("content-type"), text], [200, "application/json", body]);
    assert.equal(headers.get("x-request-id"), job.jobId);
    assert.match(headers.get("server-timing") ?? "", /queue;dur=/);
  }
  const models = platform.get("/v2/jobs/openai/v1/models");
  const job = await takeJob(platform);
  assert.equal(Buffer.from(job.input).toString(), '{"openai_route":"/v1/models","openai_input":{}}');
  await platform.queue.finish(job, completed({ data: [] }));
  assert.equal((await models).text, '{"data":[]}');
});

test("Chunks of a worker that keeps no list of them are the answer of a call without stream", async (t) => {
  const platform = await startPlatform(t);
  const called = platform.post(CHAT, BODY);
  const job = await takeJob(platform);
  await platform.queue.chunk(job, json({ id: "whole" }));
  await platform.queue.finish(job, completed([]));
  assert.deepEqual((await called).json, { id: "whole" });
});

test("Chunks become events as they come: texts as they are, in any pieces; objects and lists as events; [DONE] once", async (t) => {
  for (const [chunks, text] of [
    [["data: 1\n\n", "data: 2\n\ndata: [DONE]\n\n"], "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"],
    [["da", "ta: {", "}\r", "\n\n", ": so\n\n"], "data: {}\r\n\n: so\n\ndata: [DONE]\n\n"],
    [[{ a: "x\n" }, [{ b: 1 }, "data: 2\n\n"]], 'data: {"a":"x\\n"}\n\ndata: {"b":1}\n\ndata: 2\n\ndata: [DONE]\n\n'],
    [["data: 1", "data: 2\n", "data: 3\n\n"], "data: 1\n\ndata: 2\n\ndata: 3\n\ndata: [DONE]\n\n"],
    [["event: a\n", "data: 1\n\n"], "event: a\ndata: 1\n\ndata: [DONE]\n\n"],
    [["data: [DONE]"], "data: [DONE]\n\n"],
  ] as const) {
    const { platform, job, answer } = await begun(t, chunks[0]);
    assert.equal(answer.headers.get("content-type"), "text/event-stream");
    for (const chunk of chunks.slice(1)) await platform.queue.chunk(job, json(chunk));
    await platform.queue.finish(job, completed(chunks));
    const sent = await answer.text();
    // A line's end that waited for the next text may stand twice: an empty line more says nothing.
    assert.equal(sent.replace(/\n{3,}/g, "\n\n"), text);
  }
});

test("A function that streams nothing: an empty list is an empty stream, a whole response says what it should have done", async (t) => {
  const platform = await startPlatform(t);
  for (const [output, status, sent] of [
    [[], 200, /^data: \[DONE\]\n\n$/],
    [["data: 1\n\n", "data: 2\n\n"], 200, /^data: 1\n\ndata: 2\n\ndata: \[DONE\]/],
    [{ id: "whole" }, 502, /"BAD_RESPONSE".*|must yield the chunks/],
  ] as const) {
    const called = platform.post(CHAT, STREAM);
    await platform.queue.finish(await takeJob(platform), completed(output));
    const { status: got, text } = await called;
    assert.equal(got, status);
    assert.match(text, sent);
  }
});

test("What the function calls an error has its status; what the job came to else has the platform's", async (t) => {
  const platform = await startPlatform(t);
  const raised = { error_type: "ValueError", error_message: "no colour", error_traceback: "Traceback …" };
  const unfit = { error_type: "TypeError", error_message: "unknown argument 'openai_route'" };
  const own = { message: "too long", type: "BadRequestError", code: 422 };
  const failed = (error: unknown) => ({ state: "FAILED", error: JSON.stringify(error) }) as const;
  const cases: [outcome: Parameters<Platform["queue"]["finish"]>[1], status: number, error: object][] = [
    [completed([{ error: own }]), 422, own],
    [failed(own), 422, own],
    [
      completed([{ object: "error", message: "m", type: "invalid_request_error", code: "x" }]),
      400,
      { message: "m", code: "x" },
    ],
    [failed(raised), 500, { message: "ValueError: no colour", type: "server_error", code: "JOB_FAILED" }],
    [
      failed({ ...unfit, error_traceback: `TypeError: ${unfit.error_message}\n` }),
      400,
      { type: "invalid_request_error", code: "BAD_INPUT" },
    ],
    [{ state: "TIMED_OUT", error: "" }, 504, { code: "REQUEST_TIMEOUT" }],
    [{ state: "FAILED", error: "worker lost after 1 retry: killed" }, 502, { code: "WORKER_LOST" }],
  ];
  for (const body of [BODY, STREAM]) {
    for (const [outcome, status, error] of cases) {
      const called = platform.post(CHAT, body);
      const job = await takeJob(platform);
      await platform.queue.finish(job, outcome);
      const { status: got, json } = await called;
      assert.equal(got, status, JSON.stringify([outcome, json]));
      assert.deepEqual({ ...json.error, ...error }, json.error);
    }
  }
  for (const output of [["a", "b"], "text", [[]], 7, null]) {
    const called = platform.post(CHAT, BODY);
    await platform.queue.finish(await takeJob(platform), completed(output));
    const { status, json } = await called;
    assert.deepEqual([status, json.error.code], [502, "BAD_RESPONSE"], JSON.stringify(output));
  }
  const hostile = platform.post(CHAT, BODY);
  await platform.queue.finish(await takeJob(platform), { state: "COMPLETED", output: Buffer.from('{"a":') });
  assert.equal((await hostile).json.error.code, "BAD_RESPONSE");
  assert.deepEqual(platform.logged, []);
});

test("A stream that fails in the middle ends with an event that says why, and without [DONE]", async (t) => {
  const text = await begun(t);
  await text.platform.queue.chunk(text.job, json("data: 2\n\n"));
  await text.platform.queue.chunk(text.job, json("Hello there\n"));
  const sent = await text.answer.text();
  assert.ok(sent.startsWith("data: 1\n\ndata: 2\n\n"), sent);
  assert.equal(errorIn(sent).code, "BAD_RESPONSE");
  assert.match(errorIn(sent).message, /"Hello there", which is no line of a server-sent event/);
  await eventually(async () => assert.equal((await text.platform.queue.find(text.job.jobId))?.state, "CANCELLED"));

  const raising = await begun(t, "data: {");
  await raising.platform.queue.finish(raising.job, { state: "FAILED", error: "boom" });
  assert.deepEqual(errorIn(await raising.answer.text()), { message: "boom", type: "server_error", code: "JOB_FAILED" });

  const deleted = await begun(t);
  await deleted.platform.queue.forget("jobs");
  assert.equal(errorIn(await deleted.answer.text()).code, "JOB_NOT_FOUND");

  const hostile = await begun(t);
  await hostile.platform.queue.chunk(hostile.job, Buffer.from("{"));
  assert.equal(errorIn(await hostile.answer.text()).code, "BAD_RESPONSE");
});

test("A worker lost in the middle of a stream: nothing is said twice; lost before it, another one does all", async (t) => {
  const { platform, job, answer } = await begun(t);
  await platform.queue.release(job, "lost");
  const again = await takeJob(platform);
  await platform.queue.chunk(again, json("data: 1\n\n"));
  const sent = await answer.text();
  assert.equal(sent.match(/data: 1\n/g)?.length, 1, sent);
  assert.equal(errorIn(sent).code, "WORKER_LOST");
  await eventually(async () => assert.equal((await platform.queue.find(job.jobId))?.state, "CANCELLED"));

  const called = platform.post(CHAT, STREAM);
  await platform.queue.release(await takeJob(platform), "lost");
  const second = await takeJob(platform);
  await platform.queue.chunk(second, json("data: 1\n\n"));
  await platform.queue.finish(second, completed(["data: 1\n\n"]));
  assert.equal((await called).text, "data: 1\n\ndata: [DONE]\n\n");
});

test("A caller that leaves cancels its job, streamed or not, running or waiting", async (t) => {
  const platform = await startPlatform(t);
  for (const body of [BODY, STREAM]) {
    for (const running of [true, false]) {
      const leaving = new AbortController();
      const called = fetch(platform.url + CHAT, {
        method: "POST",
        headers: { authorization: `Bearer ${KEY}` },
        body: JSON.stringify(body),
        signal: leaving.signal,
      });
      const find = async () => (await platform.queue.list("jobs", { limit: 1 }))[0];
      const before = (await find())?.id;
      const id = running
        ? (await takeJob(platform)).jobId
        : await eventually(async () => {
            const job = await find();
            assert.ok(job !== undefined && job.id !== before);
            return job.id;
          });
      leaving.abort();
      await assert.rejects(called);
      await eventually(async () => assert.equal((await platform.queue.find(id))?.state, "CANCELLED"));
    }
  }
  assert.deepEqual(platform.logged, []);
});

test("A reader that takes nothing holds up its stream; the job may get ahead by as much as is kept, and then fails", async (t) => {
  const streamKeptMax = 2 * 1024 * 1024;
  const platform = await startPlatform(t, { streamKeptMax });
  const called = request(platform.url + CHAT, { method: "POST", headers: { authorization: `Bearer ${KEY}` } });
  called.end(JSON.stringify(STREAM));
  const job = await takeJob(platform);
  const chunk = json(`data: ${"x".repeat(1024 * 1024)}\n\n`);
  await platform.queue.chunk(job, chunk);
  const [answer] = (await once(called, "response")) as [IncomingMessage];
  let chunks = 1;
  const state = async () => (await platform.queue.find(job.jobId))!.state;
  while ((await state()) === "IN_PROGRESS") {
    assert.ok(chunks++ < 64, "what connections and the platform hold has a bound");
    await platform.queue.chunk(job, chunk);
  }
  assert.equal(await state(), "FAILED");
  let last = "";
  for await (const part of answer) last = (last + part).slice(-1000);
  assert.match(last, /"error".*STREAM_KEPT_MAX_BYTES.*"JOB_FAILED"\}\}\n\n$/);
});

test("Calls that become no job are refused as OpenAI clients read it, by key, path, method and body", async (t) => {
  const platform = await startPlatform(t);
  const refused = async (answer: Promise<Answer>, status: number, type: string, code: string) => {
    const { status: got, json, text } = await answer;
    assert.deepEqual([got, json?.error?.type, json?.error?.code, json?.code], [status, type, code, code], text);
    assert.equal(json.error.message, json.detail);
    return json.error.message as string;
  };
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
  await refused(platform.post(CHAT, BODY, bearer("sk-foreign")), 401, "authentication_error", "WRONG_KEY");
  await refused(platform.post(CHAT, BODY, { authorization: "" }), 401, "authentication_error", "MISSING_KEY");
  await refused(platform.post(CHAT, BODY, bearer("svc_read-only")), 403, "permission_error", "FORBIDDEN");
  await refused(platform.post(CHAT, BODY, bearer(WORKER_TOKEN)), 403, "permission_error", "FORBIDDEN");
  await refused(platform.post("/v2/none/openai/v1/models"), 404, "invalid_request_error", "ENDPOINT_NOT_FOUND");
  for (const path of ["", "/", "/v1", "/v1/", "/v1/files", "/v1/chat/completions/", "/v1/models/m", "/v1//models"]) {
    await refused(platform.post(`/v2/jobs/openai${path}`), 404, "invalid_request_error", "NOT_FOUND");
  }
  await refused(platform.get(CHAT), 405, "invalid_request_error", "METHOD_NOT_ALLOWED");
  await refused(platform.post("/v2/jobs/openai/v1/models"), 405, "invalid_request_error", "METHOD_NOT_ALLOWED");
  const where = /line 1, column 11/;
  assert.match(await refused(platform.post(CHAT, '{"model": '), 400, "invalid_request_error", "BAD_INPUT"), where);
  for (const body of ["[]", '"text"', "", "\xff"])
    await refused(platform.post(CHAT, body), 400, "invalid_request_error", "BAD_INPUT");
  const zipped = platform.post(CHAT, BODY, { "content-encoding": "gzip" });
  assert.match(await refused(zipped, 400, "invalid_request_error", "BAD_INPUT"), /gzip/);
  const large = platform.post(CHAT, `{"a":"${"x".repeat(21_000_000)}"}`);
  await refused(large, 413, "invalid_request_error", "TOO_LARGE");
  const help = await refused(
    platform.post(CHAT.replace("jobs", "web"), BODY),
    400,
    "invalid_request_error",
    "WRONG_ENDPOINT_KIND",
  );
  assert.match(help, /\/lb\/web\/v1/);
  await refused(platform.get("/lb/none/v1/models"), 404, "invalid_request_error", "ENDPOINT_NOT_FOUND");
  assert.deepEqual(await platform.queue.list("jobs", { limit: 1 }), [], "none of them became a job");
  assert.equal(
    (await platform.get("/v2/jobs/none")).json.error.startsWith("There is no route"),
    true,
    "job routes as ever",
  );
});

test("A full queue and a spent rate are 429 with Retry-After; the calls count with those of runsync", async (t) => {
  const full = await startPlatform(t, { queuedMax: 1 });
  await full.post("/v2/jobs/run", { input: {} });
  const { status, headers, json } = await full.post(CHAT, BODY);
  assert.deepEqual([status, json.error.type, json.error.code], [429, "rate_limit_error", "QUEUE_FULL"]);
  assert.ok(Number(headers.get("retry-after")) > 0);

  const one = { run: 9, runsync: 1, status: 9, stream: 9, cancel: 9, purge: 9, requests: 9 };
  const limited = await startPlatform(t, { settings: { rateLimits: one } });
  limited.work(() => completed({}));
  // Another window may begin between two calls.
  await eventually(async () => {
    const statuses = [await limited.post(CHAT, BODY), await limited.post("/v2/jobs/runsync", { input: {} })];
    assert.deepEqual(
      statuses.map((each) => each.status),
      [200, 429],
    );
  });
});

test("A browser page of an allowed origin calls and reads errors; of another it reads nothing", async (t) => {
  const open = { ...endpoint("jobs", "queue"), cors: "https://app.example" };
  const platform = await startPlatform(t, { deps: { endpoints: { find: () => open } } });
  platform.work(() => completed({ id: "1" }));
  const origin = "https://app.example";
  const preflight = await fetch(platform.url + CHAT, {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,x-stainless-lang",
    },
  });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers.get("access-control-allow-headers"), "authorization,x-stainless-lang");
  const answered = await platform.post(CHAT, BODY, { origin });
  const refused = await platform.post(CHAT, "{", { origin });
  assert.deepEqual([answered.status, refused.status], [200, 400]);
  for (const { headers } of [answered, refused]) assert.equal(headers.get("access-control-allow-origin"), origin);
  const other = await platform.post(CHAT, BODY, { origin: "https://other.example" });
  assert.equal(other.headers.get("access-control-allow-origin"), null);
});

test("A platform that stops tells those who wait, as a status or as an event", async (t) => {
  const platform = await startPlatform(t);
  const waiting = platform.post(CHAT, BODY);
  await takeJob(platform);
  const { platform: streaming, answer } = await begun(t);
  await Promise.all([platform.gateway.close(0), streaming.gateway.close(0)]);
  const { status, json } = await waiting;
  assert.deepEqual([status, json.error.code], [503, "SHUTTING_DOWN"]);
  assert.equal(errorIn(await answer.text()).code, "SHUTTING_DOWN");
});
