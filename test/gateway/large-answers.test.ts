/** Callers that take nothing of large answers: what lies in memory for them is bounded, and others wait no longer than need be. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ANSWER_ROOM_MAX_MS, ANSWER_TAKEN_BYTES_PER_MS, ANSWER_TAKEN_MAX_MS } from "../../src/domain/limits.ts";
import { eventually } from "../eventually.ts";
import { KEY, type Platform, RawConnection, startPlatform } from "./support.ts";

/** Far more than the kernel keeps for a caller that reads nothing. */
const LARGE = 16 * 1024 * 1024;
const OUTPUT = Buffer.from(JSON.stringify("x".repeat(LARGE)));
const CHUNK = Buffer.from(JSON.stringify("y".repeat(3 * 1024 * 1024)));
const SHORT = Buffer.from('"z"');
/** Who has had an answer of this size so long takes too long. */
const TOO_LONG_MS = ANSWER_TAKEN_MAX_MS + OUTPUT.length / ANSWER_TAKEN_BYTES_PER_MS + 1;
const PATIENT = { timeout: 120_000 };

/** There is room for two large answers; `clock` is theirs. The job `id` has such an output. */
async function started(t: TestContext) {
  const clock = { ms: 0 };
  const platform = await startPlatform(t, {
    settings: { answersMaxBytes: 2 * OUTPUT.length },
    deps: { monotonic: () => clock.ms },
  });
  // Each has bytes of its own, whose memory is given back.
  platform.work(() => ({ state: "COMPLETED", output: Buffer.from(OUTPUT) }));
  const { id } = (await platform.post("/v2/jobs/run", { input: {} })).json;
  assert.equal((await platform.queue.wait(id, 60_000))?.state, "COMPLETED");
  const { answers } = platform.gateway.context;
  const held = (count: number, waiting: number) =>
    eventually(() => assert.deepEqual([answers.heldBytes / OUTPUT.length, answers.waiting], [count, waiting]));
  return { platform, clock, path: `/v2/jobs/status/${id}`, held };
}

/** Callers that read nothing. */
function slow(t: TestContext, { port }: Platform, count: number, path: string, body?: string): RawConnection[] {
  return Array.from({ length: count }, () => {
    const raw = new RawConnection(port);
    t.after(() => raw.socket.destroy());
    raw.socket.pause();
    const [method, length] = body === undefined ? ["GET", ""] : ["POST", `Content-Length: ${body.length}\r\n`];
    const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n${length}\r\n`;
    return raw.write(head + (body ?? ""));
  });
}

function leave(callers: readonly RawConnection[]): void {
  for (const { socket } of callers) socket.destroy();
}

for (const route of ["/status", "/status-sync", "/runsync"])
  test(`A short answer waits for nobody, a large one for who takes too long: ${route}`, PATIENT, async (t) => {
    const { platform, clock, path, held } = await started(t);
    platform.work(({ input }) => ({ state: "COMPLETED", output: input }), "other");
    const isRun = route === "/runsync";
    const url = isRun ? "/v2/jobs/runsync" : path.replace("/status", route);
    const body = isRun ? '{"input":{}}' : undefined;
    slow(t, platform, 2, url, body);
    await held(2, 0);
    const gone = slow(t, platform, 4, url, body);
    await held(2, 4);
    const large = platform.get(path);
    await held(2, 5);
    assert.deepEqual((await platform.post("/v2/other/runsync", { input: { n: 1 } })).json.output, { n: 1 });
    // As long as they have their time nobody is cut off.
    clock.ms += ANSWER_TAKEN_MAX_MS;
    platform.gateway.context.answers.look();
    await held(2, 5);
    leave(gone);
    await held(2, 1);
    clock.ms += TOO_LONG_MS;
    const { json } = await large;
    assert.ok(json.output.length === LARGE && /^x+$/.test(json.output));
    // To cut one off was enough.
    await held(1, 0);
  });

test("Who waits too long for room is refused, and told where the result is", PATIENT, async (t) => {
  const { platform, clock, path, held } = await started(t);
  const { answers } = platform.gateway.context;
  slow(t, platform, 2, path);
  await held(2, 0);
  slow(t, platform, 2, path);
  await held(2, 2);
  const refused = platform.post("/v2/jobs/runsync", { input: {} });
  await held(2, 3);
  clock.ms += TOO_LONG_MS;
  answers.look();
  await held(2, 1);
  clock.ms += ANSWER_ROOM_MAX_MS - TOO_LONG_MS;
  answers.look();
  const { status, headers, json } = await refused;
  assert.deepEqual([status, json.code, headers.get("retry-after")], [429, "RATE_LIMITED", "1"]);
  assert.match(json.detail, /^Too many large answers .*: \/status\/[\w-]+ has this one as long as it is kept\. Try/);
  await held(2, 0);
});

test(
  "Chunks that are as large as an answer wait for room, also those that come once; short ones do not",
  PATIENT,
  async (t) => {
    const { platform, path, held } = await started(t);
    for (let n = 0; n < 3; n++) await platform.post("/v2/other/run", { input: {} });
    const claims = await platform.queue.claim("other", "w-2", 3, new AbortController().signal);
    for (const [n, claim] of claims.entries())
      for (const chunk of n === 2 ? [SHORT] : [SHORT, CHUNK]) await platform.queue.chunk(claim, chunk);
    const [repeated, once, short] = claims.map(({ jobId }) => `/v2/other/stream/${jobId}`);
    const callers = slow(t, platform, 2, path);
    await held(2, 0);
    assert.equal((await platform.get(once!)).json.stream.length, 1);
    assert.equal((await platform.get(short!)).json.stream.length, 1);
    const large = platform.get(once!);
    await held(2, 1);
    const again = platform.get(`${repeated}?after=1`);
    await held(2, 2);
    // Of an open stream only what its caller has not taken is counted.
    const events = new RawConnection(platform.port);
    t.after(() => events.socket.destroy());
    events.write(`GET ${repeated}?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`);
    events.write("Accept: text/event-stream\r\n\r\n");
    await events.until(/id: 1\n/);
    await held(2, 3);
    leave(callers);
    const { status, json } = await again;
    assert.deepEqual([status, json.stream.length, json.last], [200, 1, 2]);
    assert.deepEqual([(await large).status, (await large).json.stream.length], [200, 1]);
    await events.until(/id: 2\n/);
    await held(0, 0);
  },
);

test(
  "Who waits too long for the room of a chunk is refused, and nothing of it is lost; an open stream waits on",
  PATIENT,
  async (t) => {
    const { platform, clock, path, held } = await started(t);
    await platform.post("/v2/other/run", { input: {} });
    const [claim] = await platform.queue.claim("other", "w-2", 1, new AbortController().signal);
    await platform.queue.chunk(claim!, CHUNK);
    const url = `/v2/other/stream/${claim!.jobId}`;
    const callers = slow(t, platform, 2, path);
    await held(2, 0);
    // Their time is not over when that of those who wait is.
    clock.ms -= 2 * ANSWER_ROOM_MAX_MS;
    const refused = platform.get(url);
    await held(2, 1);
    const events = new RawConnection(platform.port);
    t.after(() => events.socket.destroy());
    events.write(`GET ${url} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`);
    events.write("Accept: text/event-stream\r\n\r\n");
    await held(2, 2);
    clock.ms += ANSWER_ROOM_MAX_MS;
    platform.gateway.context.answers.look();
    const { status, json } = await refused;
    assert.deepEqual([status, json.code], [429, "RATE_LIMITED"]);
    await events.until(/: still waiting\n/);
    await held(2, 1);
    leave(callers);
    await events.until(/data: \{"output":"y{100}/);
    await held(0, 0);
  },
);

test("A page of jobs, and an input, wait for room as outputs do", PATIENT, async (t) => {
  const { platform, path, held } = await started(t);
  platform.work(() => ({ state: "COMPLETED", output: Buffer.alloc(60_000, "1") }), "other");
  const input = { text: "i".repeat(4 * 1024 * 1024) };
  const { id } = (await platform.post("/v2/other/runsync", { input })).json;
  await platform.post("/v2/other/runsync", { input: {} });
  const callers = slow(t, platform, 2, path);
  await held(2, 0);
  const page = platform.get("/v2/other/requests");
  const job = platform.get(`/v2/other/status/${id}?input=true`);
  await held(2, 2);
  leave(callers);
  assert.equal((await page).json.requests.length, 2);
  assert.ok((await job).json.input.text === input.text);
  await held(0, 0);
});

test(
  "An answer of a load-balanced endpoint that came whole finds room by those that take too long, or is refused",
  PATIENT,
  async (t) => {
    const clock = { ms: 0 };
    const platform = await startPlatform(t, {
      settings: { answersMaxBytes: 2 * LARGE },
      deps: { monotonic: () => clock.ms },
      forward: async () => ({
        ...{ status: 200, headers: [], body: Buffer.alloc(LARGE, "x"), workerId: "w-5" },
        timing: { queueMs: 0, bootMs: 0, importMs: 0, execMs: 0 },
      }),
    });
    const { answers } = platform.gateway.context;
    slow(t, platform, 2, "/lb/web/picture");
    await eventually(() => assert.equal(answers.heldBytes, 2 * LARGE));
    const { status, json } = await platform.get("/lb/web/picture");
    assert.deepEqual([status, json.code], [429, "RATE_LIMITED"]);
    clock.ms += TOO_LONG_MS;
    assert.ok((await platform.get("/lb/web/picture")).text.length === LARGE);
    await eventually(() => assert.equal(answers.heldBytes, LARGE));
  },
);
