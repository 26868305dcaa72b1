import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { SvcError } from "../../src/domain/errors.ts";
import { INLINE_BODY_MAX_BYTES, LOAD_BALANCED_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import type { HeaderList, LoadBalancedRequest, LoadBalancedResponse } from "../../src/domain/request.ts";
import { type Forward, KEY, RawConnection, startPlatform } from "./support.ts";

const TIMING = { queueMs: 1.23456, bootMs: 0, importMs: 0, execMs: 7 };

function respond(body: Buffer | Readable | string, headers: HeaderList = [], status = 200): LoadBalancedResponse {
  return {
    status,
    headers,
    body: typeof body === "string" ? Buffer.from(body) : body,
    workerId: "w-5",
    timing: TIMING,
  };
}

/** A forwarder that remembers what it was given. */
function recorder(answer: Forward = async () => respond("{}")) {
  const requests: LoadBalancedRequest[] = [];
  const forward: Forward = (request) => {
    requests.push(request);
    return answer(request);
  };
  return { requests, forward };
}

const PATHS: [sent: string, path: string, query: string][] = [
  ["/lb/web/hello", "/hello", ""],
  ["/lb/web/hello/?a=1&b=%20?", "/hello/", "a=1&b=%20?"],
  ["/lb/web", "/", ""],
  ["/lb/web?x", "/", "x"],
  ["/lb/web/a%2Fb//c", "/a%2Fb//c", ""],
];

for (const [sent, path, query] of PATHS) {
  test(`${sent} reaches the function as ${path} with the query "${query}"`, async (t) => {
    const { requests, forward } = recorder();
    const platform = await startPlatform(t, { forward });
    assert.equal((await platform.get(sent)).status, 200);
    assert.deepEqual([requests[0]!.path, requests[0]!.query], [path, query]);
    assert.equal(requests[0]!.endpointId, "web");
    assert.equal(requests[0]!.timeoutMs, 5000);
  });
}

test("with a domain the Host header names the endpoint, and its routes may have any path", async (t) => {
  const { requests, forward } = recorder();
  const platform = await startPlatform(t, { forward, settings: { domain: "svc.example" } });
  const raw = new RawConnection(platform.port);
  raw.write(`GET /v2/anything HTTP/1.1\r\nHost: WEB.svc.example:8080\r\nAuthorization: ${KEY}\r\n\r\n`);
  await raw.until(/\{\}$/);
  assert.equal(requests[0]!.path, "/v2/anything");
  assert.equal((await platform.get("/lb/web/x")).status, 200);
  raw.socket.destroy();
});

test("method, body and end-to-end headers reach the function; the key and hop-by-hop headers do not", async (t) => {
  const { requests, forward } = recorder();
  const platform = await startPlatform(t, { forward });
  const raw = new RawConnection(platform.port);
  raw.write(
    `PATCH /lb/web/x HTTP/1.1\r\nHost: example.org\r\nAuthorization: Bearer ${KEY}\r\nX-Api-Key: ${KEY}\r\n` +
      "Connection: keep-alive, X-Private\r\nX-Private: 1\r\nTE: trailers\r\nX-Twice: a\r\nX-Twice: b\r\n" +
      'Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a": 1 }',
  );
  await raw.until(/\{\}$/);
  const [request] = requests;
  assert.equal(request!.method, "PATCH");
  assert.equal(String(request!.body), '{"a": 1 }');
  assert.deepEqual(request!.headers, [
    ["host", "example.org"],
    ["x-twice", "a"],
    ["x-twice", "b"],
    ["content-type", "application/json"],
    ["content-length", "9"],
    ["x-forwarded-for", "127.0.0.1"],
  ]);
  raw.socket.destroy();
});

for (const [title, trustedProxies, sent, expected] of [
  ["a stranger's own words stand before its address", [], "X-Forwarded-For: 6.6.6.6", "6.6.6.6, 127.0.0.1"],
  ["a trusted proxy names the caller", ["127.0.0.1"], "X-Forwarded-For: 6.6.6.6, 1.2.3.4", "6.6.6.6, 1.2.3.4"],
  ["a trusted proxy without words is the caller", ["127.0.0.1"], "X-A: b", "127.0.0.1"],
  ["several proxies are passed over", ["127.0.0.1", "10.0.0.0/8"], "X-Forwarded-For: 1.2.3.4, 10.1.1.1", "1.2.3.4"],
  ["one that says nonsense is not believed", ["127.0.0.1"], "X-Forwarded-For: me", "me, 127.0.0.1"],
  [
    "several headers are one",
    [],
    "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7",
    "6.6.6.6, 7.7.7.7, 127.0.0.1",
  ],
  [
    "no caller keeps its address away",
    [],
    "Connection: x-forwarded-for\r\nX-Forwarded-For: 6.6.6.6",
    "6.6.6.6, 127.0.0.1",
  ],
  ["a key in it stays here", [], `X-Forwarded-For: ${KEY}`, "127.0.0.1"],
] as const) {
  test(`X-Forwarded-For says who calls: ${title}`, async (t) => {
    const { requests, forward } = recorder();
    const platform = await startPlatform(t, { forward, settings: { trustedProxies } });
    const raw = new RawConnection(platform.port);
    raw.write(`GET /lb/web/x HTTP/1.1\r\nHost: example.org\r\nAuthorization: Bearer ${KEY}\r\n${sent}\r\n\r\n`);
    await raw.until(/\{\}$/);
    const said = requests[0]!.headers.filter(([name]) => name === "x-forwarded-for");
    assert.deepEqual(said, [["x-forwarded-for", expected]]);
    raw.socket.destroy();
  });
}

test("the response is the function's, with the worker's id and the timing", async (t) => {
  const headers: HeaderList = [
    ["Content-Type", "text/plain"],
    ["Set-Cookie", "a=1"],
    ["Set-Cookie", "b=2"],
    ["Connection", "close"],
    ["Content-Length", "999"],
    ["X-Svc-Worker-Id", "forged"],
  ];
  const platform = await startPlatform(t, { forward: async () => respond("grüße", headers, 418) });
  const { status, headers: got, text } = await platform.get("/lb/web/tea");
  assert.equal(status, 418);
  assert.equal(text, "grüße");
  assert.equal(got.get("content-type"), "text/plain");
  assert.deepEqual(got.getSetCookie(), ["a=1", "b=2"]);
  assert.equal(got.get("content-length"), "7");
  assert.equal(got.get("x-svc-worker-id"), "w-5");
  assert.equal(got.get("server-timing"), "queue;dur=1.235, boot;dur=0, import;dur=0, exec;dur=7");
});

const UNSENDABLE: [title: string, response: LoadBalancedResponse][] = [
  ["a line break in a header's value", respond("x", [["X-A", "1\r\nSet-Cookie: admin=1"]])],
  ["a line break in a header's name", respond("x", [["X-A: 1\r\nX-B", "2"]])],
  ["a status below 200", respond("x", [], 101)],
  ["a status above 599", respond("x", [], 999)],
  ["a fractional status", respond("x", [], 200.5)],
  ["a length that is no number", respond(Readable.from([Buffer.from("x")]), [["Content-Length", "1x"]])],
  ["a length below nothing", respond(Readable.from([Buffer.from("x")]), [["content-length", "-1"]])],
  [
    "two lengths",
    respond(Readable.from([Buffer.from("x")]), [
      ["content-length", "1"],
      ["Content-Length", "30"],
    ]),
  ],
  ["a whole body over the limit", respond(Buffer.alloc(LOAD_BALANCED_BODY_MAX_BYTES + 1))],
];

test("a streamed answer whose function says the same length twice has it once", async (t) => {
  const headers: HeaderList = [
    ["content-length", "3"],
    ["Content-Length", "3"],
  ];
  const platform = await startPlatform(t, {
    forward: async () => respond(Readable.from(["a", "bc"].map((part) => Buffer.from(part))), headers),
  });
  const raw = new RawConnection(platform.port);
  raw.write(`GET /lb/web/x HTTP/1.1\r\nHost: example.org\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
  const answer = await raw.until(/\r\n\r\nabc$/);
  assert.deepEqual(answer.match(/content-length: \d+/gi), ["Content-Length: 3"]);
  raw.socket.destroy();
});

for (const [title, response] of UNSENDABLE) {
  test(`a response with ${title} is refused as BAD_RESPONSE`, async (t) => {
    const platform = await startPlatform(t, { forward: async () => response });
    const { status, json, headers } = await platform.get("/lb/web/x");
    assert.deepEqual([status, json.code], [502, "BAD_RESPONSE"]);
    assert.equal(headers.get("set-cookie"), null);
  });
}

test("HEAD has no body but keeps the function's content length; 204 has neither", async (t) => {
  const platform = await startPlatform(t, {
    forward: async ({ method }) => (method === "HEAD" ? respond("", [["Content-Length", "42"]]) : respond("", [], 204)),
  });
  const head = await fetch(`${platform.url}/lb/web/x`, { method: "HEAD", headers: { authorization: KEY } });
  assert.equal(head.headers.get("content-length"), "42");
  const empty = await platform.get("/lb/web/x");
  assert.equal(empty.status, 204);
  assert.equal(empty.headers.get("content-length"), null);
});

const FAILURES: [
  code: "WORKER_LOST" | "BOOT_FAILED" | "SHUTTING_DOWN" | "WORKER_WAIT_TIMEOUT" | "REQUEST_TIMEOUT",
  status: number,
][] = [
  ["WORKER_LOST", 502],
  ["BOOT_FAILED", 502],
  ["SHUTTING_DOWN", 503],
  ["WORKER_WAIT_TIMEOUT", 504],
  ["REQUEST_TIMEOUT", 504],
];

for (const [code, status] of FAILURES) {
  test(`${code} from the worker's side is answered with ${status} and its reason`, async (t) => {
    const platform = await startPlatform(t, { forward: () => Promise.reject(new SvcError(code, "The reason.")) });
    const { status: got, json } = await platform.post("/lb/web/x", {});
    assert.deepEqual([got, json.code, json.detail], [status, code, "The reason."]);
  });
}

test("a short body comes whole, a long or chunked one as a stream", async (t) => {
  const { requests, forward } = recorder(async ({ body }) =>
    respond(Buffer.isBuffer(body) ? body : await buffer(body)),
  );
  const platform = await startPlatform(t, { forward });
  const short = "s".repeat(INLINE_BODY_MAX_BYTES);
  const long = "l".repeat(3_000_000);
  assert.equal((await platform.post("/lb/web/x", short)).text, short);
  assert.equal((await platform.post("/lb/web/x", long)).text, long);
  const raw = new RawConnection(platform.port);
  raw.write(
    `POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`,
  );
  await raw.until(/abc$/);
  assert.deepEqual(
    requests.map(({ body }) => Buffer.isBuffer(body)),
    [true, false, false],
  );
  raw.socket.destroy();
});

test("the function gets the first bytes of an upload before the last are sent", async (t) => {
  const { requests, forward } = recorder(async ({ body }) => {
    const [first] = await once(body as Readable, "data");
    return respond(first);
  });
  const platform = await startPlatform(t, { forward });
  const raw = new RawConnection(platform.port);
  raw.write(
    `POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`,
  );
  await raw.until(/abc$/);
  assert.equal(requests.length, 1);
  raw.socket.destroy();
});

test("an upload the function does not read to its end does not stand before the next call", async (t) => {
  let calls = 0;
  const platform = await startPlatform(t, { forward: async () => respond(`answer ${++calls}`) });
  const raw = new RawConnection(platform.port);
  const head = `POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nContent-Length: 3000000\r\n\r\n`;
  raw.write(head);
  await raw.until(/answer 1$/);
  raw.write("x".repeat(3_000_000) + head.replace("3000000", "0"));
  await raw.until(/answer 2$/);
  raw.socket.destroy();
});

test("a declared body over 30 MB is refused before a worker is asked", async (t) => {
  const { requests, forward } = recorder();
  const platform = await startPlatform(t, { forward });
  const raw = new RawConnection(platform.port);
  const length = LOAD_BALANCED_BODY_MAX_BYTES + 1;
  raw.write(`POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nContent-Length: ${length}\r\n\r\n`);
  assert.match(await raw.until(/\}$/), /^HTTP\/1.1 413 .*TOO_LARGE/s);
  assert.equal(requests.length, 0);
  raw.socket.destroy();
});

test("a chunked body over 30 MB is refused while it streams", async (t) => {
  const { forward } = recorder(async ({ body }) => {
    for await (const _ of body as Readable);
    return respond("all of it");
  });
  const platform = await startPlatform(t, { forward });
  const raw = new RawConnection(platform.port);
  raw.write(`POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  const piece = `100000\r\n${"x".repeat(0x100000)}\r\n`;
  for (let i = 0; i < 31; i++) if (!raw.socket.write(piece)) await once(raw.socket, "drain");
  assert.match(await raw.until(/\}$/), /^HTTP\/1.1 413 .*TOO_LARGE/s);
  raw.socket.destroy();
});

test("a streamed response arrives as the function yields", async (t) => {
  const body = new PassThrough();
  const platform = await startPlatform(t, {
    forward: async () => respond(body, [["content-type", "text/event-stream"]]),
  });
  const response = await fetch(`${platform.url}/lb/web/x`, { headers: { authorization: KEY } });
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  assert.equal(response.headers.get("content-length"), null);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (const event of ["data: 1\n\n", "data: 2\n\n"]) {
    body.write(event);
    assert.equal((await reader.read()).value, event);
  }
  body.end();
  assert.equal((await reader.read()).done, true);
});

test("a response that breaks in the middle is cut, so the caller sees that it is incomplete", async (t) => {
  const body = new PassThrough();
  const platform = await startPlatform(t, { forward: async () => respond(body) });
  const response = await fetch(`${platform.url}/lb/web/x`, { headers: { authorization: KEY } });
  body.write("half");
  const reader = response.body!.getReader();
  assert.equal(Buffer.from((await reader.read()).value!).toString(), "half");
  body.destroy(new SvcError("WORKER_LOST", "gone"));
  await assert.rejects(reader.read());
});

test("a large stream of parts of any size arrives as it was sent, to a reader that stops now and then", async (t) => {
  const sent = randomBytes(5_000_000);
  const sizes = [70_000, 20_000, 100, 300_000, 17_000, 1];
  function* parts() {
    for (let at = 0, n = 0; at < sent.length; n++) {
      const size = sizes[n % sizes.length]!;
      // Each in a buffer of its own, as frames are that came in parts.
      yield Buffer.from(new Uint8Array(sent.subarray(at, at + size)).buffer);
      at += size;
    }
  }
  const platform = await startPlatform(t, { forward: async () => respond(Readable.from(parts())) });
  const answer = await fetch(`http://127.0.0.1:${platform.port}/lb/web/x`, { headers: { authorization: KEY } });
  const got: Uint8Array[] = [];
  for await (const part of answer.body!) {
    got.push(part);
    if (got.length % 10 === 0) await setImmediate();
  }
  assert.ok(sent.equals(Buffer.concat(got)));
});

test("a slow reader holds the function back instead of filling memory", async (t) => {
  let made = 0;
  const piece = Buffer.alloc(64 * 1024);
  const body = new Readable({
    read() {
      made += piece.length;
      this.push(made > 512 * 1024 * 1024 ? null : piece);
    },
  });
  const platform = await startPlatform(t, { forward: async () => respond(body) });
  const raw = new RawConnection(platform.port);
  raw.socket.pause();
  raw.write(`GET /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`);
  for (let before = -1; before !== made || made === 0; ) {
    before = made;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(made < 64 * 1024 * 1024, `${made} bytes were made for a reader that takes none`);
  raw.socket.destroy();
  await new Promise((resolve) => body.once("close", resolve));
});

/** `left` resolves when the request's caller has gone. */
function waitingForward() {
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const forward: Forward = ({ departure }) => {
    start();
    return new Promise((_, reject) => {
      departure.onGone = () => {
        leave();
        reject(new SvcError("WORKER_LOST", "The caller has gone."));
      };
    });
  };
  return { forward, started, left };
}

test("a caller that breaks the connection cancels the function", async (t) => {
  const { forward, started, left } = waitingForward();
  const platform = await startPlatform(t, { forward });
  const raw = new RawConnection(platform.port).write(
    `GET /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`,
  );
  await started;
  raw.socket.resetAndDestroy();
  await left;
  assert.deepEqual(platform.logged, []);
});

test("a caller that closes the connection in the usual way cancels the function too", async (t) => {
  const { forward, started, left } = waitingForward();
  const platform = await startPlatform(t, { forward });
  const raw = new RawConnection(platform.port).write(
    `GET /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`,
  );
  await started;
  raw.socket.destroy();
  await left;
});

test("a caller that closed only its sending side still gets the function's response", async (t) => {
  const { promise: response, resolve: answer } = Promise.withResolvers<LoadBalancedResponse>();
  const platform = await startPlatform(t, { forward: () => response });
  const raw = new RawConnection(platform.port).write(
    `GET /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`,
  );
  raw.socket.end();
  await raw.until(/100 Continue.*100 Continue/s); // It was asked twice whether it still listens.
  answer(respond("late"));
  assert.match(await raw.untilClosed(), /HTTP\/1.1 200 OK.*late$/s);
});

test("a caller that breaks off in the middle of an upload ends the function's body with an error", async (t) => {
  const { promise: seen, resolve: see } = Promise.withResolvers<string>();
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  const platform = await startPlatform(t, {
    forward: async ({ body }) => {
      start();
      await buffer(body as Readable).catch((error: Error) => see(error.name));
      throw new SvcError("WORKER_LOST", "The caller has gone.");
    },
  });
  const raw = new RawConnection(platform.port);
  raw.write(
    `POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`,
  );
  await started;
  raw.socket.resetAndDestroy();
  assert.equal(await seen, "CallerGone");
});

for (const [said, sent] of [
  [5, 5],
  [5, 4],
  [5, 6],
] as const) {
  test(`a stream of ${sent} bytes that said ${said} ${said === sent ? "keeps its length" : "is cut off"}`, async (t) => {
    const body = () => Readable.from([Buffer.alloc(3, "a"), Buffer.alloc(sent - 3, "b")]);
    const forward = async () => respond(body(), [["Content-Length", String(said)]]);
    const platform = await startPlatform(t, { forward });
    if (said !== sent) return await assert.rejects(platform.get("/lb/web/x"));
    const { headers, text } = await platform.get("/lb/web/x");
    assert.deepEqual([headers.get("content-length"), text], ["5", "aaabb"]);
  });
}
