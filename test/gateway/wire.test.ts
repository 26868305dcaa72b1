import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { REFUSED_BODY_DRAIN_MAX_BYTES, RUN_BODY_MAX_BYTES, RUNSYNC_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { echo, KEY, RawConnection, startPlatform } from "./support.ts";

const AUTH = `Authorization: Bearer ${KEY}\r\n`;

function message(method: string, path: string, headers = "", body = ""): string {
  const length = body === "" ? "" : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${AUTH}${headers}${length}\r\n${body}`;
}

const RUN = message("POST", "/v2/jobs/run", "", '{"input":{}}');
const HEALTH = message("GET", "/v2/jobs/health");

const BROKEN: [title: string, bytes: string, status: number, code: string][] = [
  ["no HTTP at all", "hello there\r\n\r\n", 400, "BAD_INPUT"],
  ["no host", "POST /v2/jobs/run HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400, "BAD_INPUT"],
  ["a header without colon", "GET / HTTP/1.1\r\nHost localhost\r\n\r\n", 400, "BAD_INPUT"],
  [
    "a length that is no number",
    "POST /v2/jobs/run HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    400,
    "BAD_INPUT",
  ],
  [
    "two lengths",
    "POST /v2/jobs/run HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    400,
    "BAD_INPUT",
  ],
  [
    "a length and chunks",
    "POST /v2/jobs/run HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    400,
    "BAD_INPUT",
  ],
  ["headers without end", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(40_000)}\r\n\r\n`, 431, "HEADERS_TOO_LARGE"],
];

for (const [title, bytes, status, code] of BROKEN) {
  test(`broken HTTP is answered with the error body and closed: ${title}`, async (t) => {
    const platform = await startPlatform(t);
    const text = await new RawConnection(platform.port).write(bytes).untilClosed();
    assert.match(text, new RegExp(`^HTTP/1.1 ${status} `));
    assert.equal(JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4)).code, code);
    assert.equal((await platform.get("/v2/jobs/health")).status, 200);
  });
}

test("broken HTTP behind a request that waits is not told as that request's answer", async (t) => {
  const platform = await startPlatform(t);
  const waiting = message("POST", "/v2/jobs/runsync", "", '{"input":{}}'); // no worker takes it
  const text = await new RawConnection(platform.port).write(`${waiting}hello there\r\n\r\n`).untilClosed();
  assert.equal(text, "");
  assert.equal((await platform.get("/v2/jobs/health")).status, 200);
});

for (const headers of [
  "",
  "Connection: upgrade\r\nUpgrade: h2c\r\n",
  "Connection: upgrade\r\nUpgrade: x, websocket\r\n",
]) {
  test(`a caller who closes its sending side within a body is answered and closed (${headers.trim()})`, async (t) => {
    const platform = await startPlatform(t);
    const raw = new RawConnection(platform.port);
    raw
      .write(`POST /v2/jobs/run HTTP/1.1\r\nHost: x\r\n${AUTH}${headers}Content-Length: 100\r\n\r\n{"inp`)
      .socket.end();
    assert.match(await raw.untilClosed(), /^HTTP\/1.1 400 .*BAD_INPUT/s);
  });
}

test("a broken chunk in a body is answered and closed", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port);
  raw.write(message("POST", "/v2/jobs/run", "Transfer-Encoding: chunked\r\n")).write("zz\r\n{}\r\n");
  assert.match(await raw.untilClosed(), /^HTTP\/1.1 400 .*BAD_INPUT/s);
});

test("two Authorization headers are refused, even when the first is good", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(
    message("GET", "/v2/jobs/health", "Authorization: Bearer other\r\n"),
  );
  assert.match(await raw.until(/\}$/), /^HTTP\/1.1 400 .*several Authorization headers/s);
  raw.socket.destroy();
});

test("several calls on one connection are answered in order", async (t) => {
  const platform = await startPlatform(t);
  platform.work(echo);
  const runsync = (n: number) => message("POST", "/v2/jobs/runsync", "", `{"input":{"n":${n}}}`);
  const raw = new RawConnection(platform.port).write(runsync(1) + runsync(2) + HEALTH);
  const text = await raw.until(/"workers"/);
  assert.deepEqual(text.match(/"output":\{"n":\d\}|"jobs":/g), ['"output":{"n":1}', '"output":{"n":2}', '"jobs":']);
  raw.socket.destroy();
});

test("a body that is small enough leaves the connection usable, whatever the answer", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(message("POST", "/v2/jobs/run", "", "{"));
  await raw.until(/BAD_INPUT"\}$/);
  raw.write(message("POST", "/v2/none/run", "", '{"input":{}}'));
  await raw.until(/ENDPOINT_NOT_FOUND"\}$/);
  raw.write(HEALTH);
  await raw.until(/"workers"/);
  raw.socket.destroy();
});

for (const [route, limit] of [
  ["run", RUN_BODY_MAX_BYTES],
  ["runsync", RUNSYNC_BODY_MAX_BYTES],
] as const) {
  test(`a declared body over the limit of ${route} is refused before it is sent`, async (t) => {
    const platform = await startPlatform(t);
    const raw = new RawConnection(platform.port);
    raw.write(message("POST", `/v2/jobs/${route}`, `Content-Length: ${limit + 1}\r\n`));
    assert.match(await raw.until(/\}$/), new RegExp(`^HTTP/1.1 413 .*Connection: close.*${limit} bytes`, "s"));
    raw.socket.destroy();
  });
}

test("a body of exactly the limit is taken", async (t) => {
  const platform = await startPlatform(t);
  const frame = '{"input":{"x":""}}';
  const body = `{"input":{"x":"${"x".repeat(RUN_BODY_MAX_BYTES - frame.length)}"}}`;
  assert.equal((await platform.post("/v2/jobs/run", body)).status, 200);
  assert.equal((await platform.post("/v2/jobs/run", `${body} `)).status, 413);
});

test("a chunked body over the limit is refused while it streams; a caller that goes on sending still reads the answer", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port);
  raw.write(message("POST", "/v2/jobs/run", "Transfer-Encoding: chunked\r\n"));
  const piece = `10000\r\n${"x".repeat(0x10000)}\r\n`;
  const pieces = RUN_BODY_MAX_BYTES / 0x10000 + 16;
  for (let i = 0; i < pieces; i++) {
    if (!raw.socket.write(piece)) await once(raw.socket, "drain");
  }
  assert.match(await raw.until(/\}$/), /^HTTP\/1.1 413 .*TOO_LARGE/s);
  raw.write("0\r\n\r\n");
  await raw.untilClosed();
});

test("a caller that looks for its answer only after much more than is passed over still finds it", async (t) => {
  const platform = await startPlatform(t);
  const accepted = once(platform.gateway.server, "connection");
  const raw = new RawConnection(platform.port);
  t.after(() => raw.socket.destroy());
  raw.socket.pause();
  const bytes = REFUSED_BODY_DRAIN_MAX_BYTES + 16 * 1024 ** 2;
  raw.write(message("POST", "/v2/jobs/run", `Content-Length: ${2 * bytes}\r\n`)).write("x".repeat(bytes));
  const [served] = (await accepted) as [Socket];
  const turn = () => new Promise(setImmediate);
  while (served.bytesRead <= REFUSED_BODY_DRAIN_MAX_BYTES && !raw.socket.destroyed) await turn();
  // A connection that is closed now, with more of the body under way, is reset: the caller's next write fails.
  for (let turns = 0; turns < 100; turns++) await turn();
  raw.socket.resume();
  assert.match(await raw.until(/\}$/), /^HTTP\/1.1 413 .*TOO_LARGE/s);
});

test("a caller that asks first is not invited when it would be refused", async (t) => {
  const platform = await startPlatform(t);
  const expect = `Expect: 100-continue\r\n`;
  const tooLarge = new RawConnection(platform.port);
  tooLarge.write(message("POST", "/v2/jobs/run", `${expect}Content-Length: ${RUN_BODY_MAX_BYTES + 1}\r\n`));
  assert.match(await tooLarge.until(/\}$/), /^HTTP\/1.1 413/);
  const unknown = new RawConnection(platform.port);
  unknown.write(`POST /v2/jobs/run HTTP/1.1\r\nHost: x\r\n${expect}Content-Length: 12\r\n\r\n`);
  assert.match(await unknown.until(/\}$/), /^HTTP\/1.1 401/);
  const welcome = new RawConnection(platform.port);
  welcome.write(message("POST", "/v2/jobs/run", `${expect}Content-Length: 12\r\n`));
  await welcome.until(/^HTTP\/1.1 100 Continue\r\n\r\n/);
  welcome.write('{"input":{}}');
  await welcome.until(/HTTP\/1.1 200 OK.*IN_QUEUE/s);
  for (const raw of [tooLarge, unknown, welcome]) raw.socket.destroy();
});

const SLOW = { arrival: { headersMs: 150, requestMs: 300, checkMs: 25 } };

test("a caller that does not finish its headers is answered 408 and closed", async (t) => {
  const platform = await startPlatform(t, { settings: SLOW });
  const raw = new RawConnection(platform.port).write("POST /v2/jobs/run HTTP/1.1\r\nHost: x\r\nX-Slow: ");
  assert.match(await raw.untilClosed(), /^HTTP\/1.1 408 .*SLOW_REQUEST/s);
});

test("a caller that does not finish its body is answered 408 and closed", async (t) => {
  const platform = await startPlatform(t, { settings: SLOW });
  const raw = new RawConnection(platform.port).write(message("POST", "/v2/jobs/run", "Content-Length: 500\r\n"));
  raw.write('{"input":');
  assert.match(await raw.untilClosed(), /^HTTP\/1.1 408 .*SLOW_REQUEST/s);
});

test("a caller whose job takes long is not slow", async (t) => {
  // Its request itself may take a while on a busy machine.
  const arrival = { headersMs: 1_000, requestMs: 1_000, checkMs: 25 };
  const platform = await startPlatform(t, { settings: { arrival } });
  const answer = platform.post("/v2/jobs/runsync?wait=3000", { input: {} });
  assert.equal((await answer).status, 200);
});

test("a body sent byte by byte is a body like any other", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port);
  raw.socket.setNoDelay(true);
  for (const char of RUN) {
    raw.write(char);
    await new Promise(setImmediate);
  }
  await raw.until(/IN_QUEUE/);
  raw.socket.destroy();
});

test("a caller that closed its sending side gets its answer, then the connection ends", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(message("POST", "/v2/jobs/runsync", "", '{"input":{"n":1}}'));
  raw.socket.end();
  const [job] = await platform.queue.claim("jobs", "w-1", 1, AbortSignal.timeout(60_000));
  await platform.queue.finish(job!, { state: "COMPLETED", output: job!.input });
  assert.match(await raw.untilClosed(), /HTTP\/1.1 200 OK.*"output":\{"n":1\}\}$/s);
});

test("a caller that closes in the middle of its body is forgotten", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(message("POST", "/v2/jobs/run", "Content-Length: 500\r\n"));
  raw.write('{"input":').socket.end();
  await raw.untilClosed();
  assert.deepEqual(platform.logged, []);
  assert.equal((await platform.get("/v2/jobs/health")).json.jobs.inQueue, 0);
});

test("a caller that closes without having said anything is closed too", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port);
  raw.socket.end();
  assert.equal(await raw.untilClosed(), "");
});

test("many calls may wait on one connection", async (t) => {
  const platform = await startPlatform(t);
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on("warning", onWarning);
  t.after(() => process.off("warning", onWarning));
  const call = message("POST", "/v2/jobs/runsync", "", '{"input":{}}');
  const raw = new RawConnection(platform.port).write(call.repeat(30));
  const stop = AbortSignal.timeout(60_000);
  for (let done = 0; done < 30; ) {
    for (const job of await platform.queue.claim("jobs", "w-1", 30, stop)) {
      await platform.queue.finish(job, { state: "COMPLETED", output: Buffer.from(String(++done)) });
    }
  }
  await raw.until(/"output":30\}/);
  assert.deepEqual(warnings, []);
  raw.socket.destroy();
});

test("an absolute URL in the request line is taken like a path", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(message("GET", "http://example.org/v2/jobs/health"));
  await raw.until(/"workers"/);
  raw.socket.destroy();
});

test("a body with a Content-Encoding is refused by name", async (t) => {
  const platform = await startPlatform(t);
  const { status, json } = await platform.post("/v2/jobs/run", "x", { "content-encoding": "gzip" });
  assert.equal(status, 400);
  assert.match(json.detail, /gzip/);
});

test("routes that need no body ignore one, also an empty one with a JSON content type", async (t) => {
  const platform = await startPlatform(t);
  for (const body of ["", "{}", "not json"]) {
    const { status } = await platform.post("/v2/jobs/purge-queue", body, { "content-type": "application/json" });
    assert.equal(status, 200);
  }
});

test("two thousand idle connections cost little and keep nobody out", async (t) => {
  const platform = await startPlatform(t);
  const before = process.memoryUsage().rss;
  const sockets = await Promise.all(
    Array.from({ length: 2000 }, async () => {
      const socket = connect(platform.port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    }),
  );
  assert.equal((await platform.get("/v2/jobs/health")).status, 200);
  const perConnection = (process.memoryUsage().rss - before) / sockets.length;
  for (const socket of sockets) socket.destroy();
  assert.ok(perConnection < 48 * 1024, `${Math.round(perConnection / 1024)} KiB for both ends of a connection`);
});

test("An upgrade sent behind a request that is not answered yet closes the connection, and others go on", async (t) => {
  const platform = await startPlatform(t);
  const body = '{"input":1}';
  const head = `host: x\r\nauthorization: Bearer ${KEY}\r\n`;
  const waits = `POST /v2/jobs/runsync HTTP/1.1\r\n${head}content-length: ${body.length}\r\n\r\n${body}`;
  const upgrade = `GET /v2/web/talk HTTP/1.1\r\n${head}connection: upgrade\r\nupgrade: websocket\r\n\r\n`;
  await new RawConnection(platform.port).write(waits + upgrade).untilClosed();
  assert.equal((await platform.get("/v2/jobs/health")).status, 200);
});
