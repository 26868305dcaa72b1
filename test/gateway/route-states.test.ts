/** Every job route in every state of a job: docs/reference/job-api.md as a table. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobState } from "../../src/domain/job.ts";
import type { ClaimedJob } from "../../src/queue/queue.ts";
import { type Platform, startPlatform } from "./support.ts";

const INPUT = { name: "Ada" };
const ALWAYS = ["id", "status", "delayTime", "executionTime", "workerId"];
type State = JobState | "gone";

async function submit(platform: Platform): Promise<string> {
  return (await platform.post("/v2/jobs/run", { input: INPUT })).json.id;
}

async function started(platform: Platform): Promise<ClaimedJob> {
  await submit(platform);
  const [claim] = await platform.queue.claim("jobs", "w-1", 1, AbortSignal.timeout(60_000));
  return claim!;
}

/** Makes a job of each state; resolves its id. */
const MAKE: Record<State, (platform: Platform) => Promise<string>> = {
  IN_QUEUE: submit,
  IN_PROGRESS: async (platform) => {
    const claim = await started(platform);
    await platform.queue.progress(claim, Buffer.from('"half"'));
    return claim.jobId;
  },
  COMPLETED: async (platform) => {
    const claim = await started(platform);
    await platform.queue.finish(claim, { state: "COMPLETED", output: Buffer.from('"done"') });
    return claim.jobId;
  },
  FAILED: async (platform) => {
    const claim = await started(platform);
    await platform.queue.finish(claim, { state: "FAILED", error: "boom" });
    return claim.jobId;
  },
  TIMED_OUT: async (platform) => {
    const claim = await started(platform);
    await platform.queue.finish(claim, { state: "TIMED_OUT", error: "too long" });
    return claim.jobId;
  },
  CANCELLED: async (platform) => {
    const claim = await started(platform);
    await platform.queue.cancel(claim.jobId);
    return claim.jobId;
  },
  gone: async (platform) => {
    const id = await submit(platform);
    await platform.queue.purge("jobs");
    return id;
  },
};

/** What the job object holds beyond the keys it always has. */
const EXTRA: Record<JobState, object> = {
  IN_QUEUE: { workerId: "" },
  IN_PROGRESS: { workerId: "w-1", output: "half" },
  COMPLETED: { workerId: "w-1", output: "done" },
  FAILED: { workerId: "w-1", error: "boom" },
  TIMED_OUT: { workerId: "w-1", error: "too long" },
  CANCELLED: { workerId: "w-1" },
};

// biome-ignore lint/suspicious/noExplicitAny: an answer of any shape
type Body = any;
type Expect = (body: Body, id: string, state: JobState) => void;

function jobObject(body: Body, id: string, state: JobState, more: object = {}): void {
  const { delayTime, executionTime, ...rest } = body;
  assert.deepEqual(rest, { id, status: state, ...EXTRA[state], ...more });
  assert.ok(Number.isInteger(delayTime) && Number.isInteger(executionTime));
  assert.deepEqual(
    ALWAYS.filter((key) => !(key in body)),
    [],
  );
}

const same: Expect = (body, id, state) => jobObject(body, id, state);
const cancelled: Expect = (body, id) => assert.deepEqual(body, { id, status: "CANCELLED" });
const unchanged: Expect = (body, id, state) => assert.deepEqual(body, { id, status: state });
const queued: Expect = (body, id) => assert.deepEqual(body, { id, status: "IN_QUEUE" });
const chunks: Expect = (body, _id, state) => assert.deepEqual(body, { status: state, stream: [] });
const conflict = "JOB_NOT_RETRYABLE";

/** Route → method and path, and for each state what it answers: a check of the 200, or an error code. */
const TABLE: readonly {
  route: string;
  methods: readonly ("GET" | "POST")[];
  query?: string;
  answers: Record<JobState, Expect | string>;
}[] = [
  { route: "status", methods: ["GET", "POST"], answers: everywhere(same) },
  {
    route: "status",
    methods: ["GET", "POST"],
    query: "?input=true",
    answers: everywhere(({ createdAt, ...body }, id, state) => {
      assert.ok(Number.isInteger(createdAt));
      jobObject(body, id, state, { input: INPUT });
    }),
  },
  { route: "status-sync", methods: ["GET", "POST"], query: "?wait=1000", answers: everywhere(same) },
  { route: "stream", methods: ["GET", "POST"], query: "?wait=0", answers: everywhere(chunks) },
  {
    route: "cancel",
    methods: ["POST"],
    answers: { ...everywhere(unchanged), IN_QUEUE: cancelled, IN_PROGRESS: cancelled },
  },
  { route: "retry", methods: ["POST"], answers: { ...everywhere(conflict), FAILED: queued, TIMED_OUT: queued } },
];

function everywhere(answer: Expect | string): Record<JobState, Expect | string> {
  return Object.fromEntries(Object.keys(EXTRA).map((state) => [state, answer])) as Record<JobState, Expect | string>;
}

for (const { route, methods, query = "", answers } of TABLE) {
  for (const method of methods) {
    test(`${method} /${route}${query} in every state of a job`, async (t) => {
      await Promise.all(
        (Object.keys(MAKE) as State[]).map(async (state) => {
          const own = await startPlatform(t);
          const id = await MAKE[state](own);
          const path = `/v2/jobs/${route}/${id}${query}`;
          const { status, json } = method === "GET" ? await own.get(path) : await own.post(path);
          const expected = state === "gone" ? "JOB_NOT_FOUND" : answers[state];
          if (typeof expected === "string") {
            assert.equal(json.code, expected, `${state}: ${JSON.stringify(json)}`);
            assert.deepEqual(Object.keys(json), ["error", "status", "title", "detail", "code"]);
            assert.equal(status, json.status);
            assert.equal(status, expected === conflict ? 409 : 404);
          } else {
            assert.equal(status, 200, state);
            expected(json, id, state as JobState);
          }
        }),
      );
    });
  }
  for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH"].filter((name) => !methods.includes(name as "GET"))) {
    test(`${method} /${route}${query} is not allowed`, async (t) => {
      const platform = await startPlatform(t);
      const response = await fetch(`${platform.url}/v2/jobs/${route}/x${query}`, { method });
      assert.equal(response.status, 405);
      assert.equal(response.headers.get("allow"), methods.join(", "));
    });
  }
}

test("/requests lists the dead letters with input, error and retries", async (t) => {
  const platform = await startPlatform(t);
  await submit(platform);
  const [first] = await platform.queue.claim("jobs", "w-1", 1, AbortSignal.timeout(60_000));
  await platform.queue.release(first!, "lost");
  const [again] = await platform.queue.claim("jobs", "w-2", 1, AbortSignal.timeout(60_000));
  await platform.queue.release(again!, "lost");
  const { json } = await platform.get("/v2/jobs/requests?status=FAILED");
  const [{ delayTime, executionTime, createdAt, ...job }] = json.requests;
  assert.ok(Number.isInteger(createdAt));
  assert.deepEqual(job, {
    id: first!.jobId,
    status: "FAILED",
    workerId: "w-2",
    retries: 1,
    error: "worker lost after 1 retry",
    input: INPUT,
  });
});

test("/requests leaves a large input out; /status?input=true has it", async (t) => {
  const platform = await startPlatform(t);
  const input = { text: "x".repeat(100_000) };
  const { json: job } = await platform.post("/v2/jobs/run", { input });
  assert.ok(!("input" in (await platform.get("/v2/jobs/requests")).json.requests[0]));
  assert.deepEqual((await platform.get(`/v2/jobs/status/${job.id}?input=true`)).json.input, input);
  assert.equal((await platform.get(`/v2/jobs/status/${job.id}?input=yes`)).status, 400);
});

test("a full queue answers 429 with Retry-After; other endpoints, known idempotency keys and retries are taken", async (t) => {
  const platform = await startPlatform(t, { queuedMax: 2 });
  const key = { "idempotency-key": "k" };
  const failed = await MAKE.FAILED(platform);
  const first = await platform.post("/v2/jobs/run", { input: {} }, key);
  await submit(platform);
  for (const route of ["run", "runsync"]) {
    const refused = await platform.post(`/v2/jobs/${route}`, { input: {} });
    assert.deepEqual([refused.status, refused.json.code, refused.headers.get("retry-after")], [429, "QUEUE_FULL", "1"]);
    assert.match(refused.json.detail, /2 jobs of this endpoint wait already/);
  }
  assert.equal((await platform.post("/v2/other/run", { input: {} })).status, 200);
  assert.equal((await platform.post("/v2/jobs/run", { input: {} }, key)).json.id, first.json.id);
  assert.equal((await platform.post(`/v2/jobs/retry/${failed}`)).status, 200);
  assert.equal((await platform.get("/v2/jobs/health")).json.jobs.inQueue, 3);
  await platform.queue.claim("jobs", "w-1", 2, AbortSignal.timeout(60_000));
  assert.equal((await platform.post("/v2/jobs/run", { input: {} })).status, 200, "there is room again");
});
