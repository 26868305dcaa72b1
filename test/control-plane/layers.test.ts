import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

async function send(
  platform: TestPlatform,
  method: string,
  digest: string,
  body?: BodyInit,
  key = platform.adminKey,
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${platform.url}/layers/${digest}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers },
    body,
    duplex: "half",
  } as RequestInit);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

function streamed(bytes: Buffer): ReadableStream {
  return new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += 65_536) controller.enqueue(bytes.subarray(i, i + 65_536));
      controller.close();
    },
  });
}

test("a layer is streamed in once and then known", async (t) => {
  const platform = await startPlatform(t);
  const bytes = randomBytes(1_000_000);
  const digest = digestOf(bytes);
  assert.equal((await send(platform, "HEAD", digest)).status, 404);
  for (const body of [streamed(bytes), streamed(bytes)]) {
    const { status, text } = await send(platform, "PUT", digest, body);
    assert.equal(status, 200, text);
    assert.deepEqual(JSON.parse(text), { digest, size: bytes.length });
  }
  const head = await send(platform, "HEAD", digest);
  assert.equal(head.status, 200);
  assert.equal(head.headers.get("content-length"), "1000000");
});

test("a layer whose bytes do not hash to its name is refused and not kept", async (t) => {
  const platform = await startPlatform(t);
  const digest = digestOf(Buffer.from("right"));
  const { status, text } = await send(platform, "PUT", digest, "wrong");
  assert.equal(status, 400);
  assert.equal(JSON.parse(text).code, "LAYER_CORRUPT");
  assert.equal((await send(platform, "HEAD", digest)).status, 404);
});

test("behind an upload that is refused in the middle the connection ends: no later request waits on it for ever", async (t) => {
  const platform = await startPlatform(t, { artifactMaxBytes: 1000 });
  const { hostname, port } = new URL(platform.url);
  const socket = connect({ host: hostname, port: Number(port), signal: t.signal });
  t.after(() => socket.destroy());
  const answer = textOf(socket);
  const head = [
    `PUT /layers/${digestOf(Buffer.from("right"))} HTTP/1.1`,
    "Host: platform",
    `Authorization: Bearer ${platform.adminKey}`,
    "Transfer-Encoding: chunked",
  ];
  const piece = Buffer.alloc(65_536);
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  for (let i = 0; i < 8; i++) socket.write(Buffer.concat([Buffer.from("10000\r\n"), piece, Buffer.from("\r\n")]));
  socket.write("0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: platform\r\n\r\n");
  assert.match(await answer, /^HTTP\/1.1 413 .*connection: close.*"code":"TOO_LARGE"/is);
});

test("a layer over the limit is refused, announced or not", async (t) => {
  const platform = await startPlatform(t, { artifactMaxBytes: 1000 });
  const bytes = randomBytes(200_000);
  for (const body of [new Uint8Array(bytes), streamed(bytes)]) {
    const { status, text } = await send(platform, "PUT", digestOf(bytes), body);
    assert.equal(status, 413);
    assert.equal(JSON.parse(text).code, "TOO_LARGE");
  }
  assert.equal((await send(platform, "HEAD", digestOf(bytes))).status, 404);
});

/** Sends the first bytes of a layer and says how to cut the connection then. */
async function begin(platform: TestPlatform, digest: string, bytes: Buffer, size: number) {
  const sending = request(`${platform.url}/layers/${digest}`, {
    method: "PUT",
    headers: { authorization: platform.adminKey, "content-length": size },
  });
  const closed = new Promise((resolve) => sending.on("error", resolve));
  sending.write(bytes);
  await arrived(platform, digest, bytes.length);
  return () => {
    sending.destroy(new Error("cut"));
    return closed;
  };
}

async function arrived(platform: TestPlatform, digest: string, bytes: number): Promise<void> {
  while ((await send(platform, "HEAD", digest)).headers.get("upload-offset") !== String(bytes));
}

function patch(platform: TestPlatform, digest: string, rest: Buffer, offset: number | string, complete = "?1") {
  const headers = { "upload-offset": String(offset), "upload-complete": complete };
  return send(platform, "PATCH", digest, new Uint8Array(rest), platform.adminKey, headers);
}

/** Until the platform has noticed that the connection before is gone. */
async function continued(...[platform, digest, rest, offset]: Parameters<typeof patch>) {
  for (;;) {
    const answer = await patch(platform, digest, rest, offset);
    if (answer.status !== 409) return answer;
  }
}

test("an upload that breaks off is told by its offset and continued from there", async (t) => {
  const platform = await startPlatform(t);
  const bytes = randomBytes(300_000);
  const digest = digestOf(bytes);
  const cut = await begin(platform, digest, bytes.subarray(0, 100_000), bytes.length);
  await cut();
  const head = await send(platform, "HEAD", digest);
  assert.equal(head.status, 204);
  assert.equal(head.headers.get("upload-offset"), "100000");
  assert.equal(head.headers.get("upload-complete"), "?0");
  assert.equal(head.headers.get("cache-control"), "no-store");
  const { status, text } = await continued(platform, digest, bytes.subarray(100_000), 100_000);
  assert.equal(status, 200, text);
  assert.deepEqual(JSON.parse(text), { digest, size: bytes.length });
  const whole = await send(platform, "HEAD", digest);
  assert.deepEqual([whole.status, whole.headers.get("upload-complete")], [200, "?1"]);
  assert.equal(whole.headers.get("upload-offset"), "300000");
  assert.deepEqual(platform.logged, [], "a cut connection is no failure of the platform");
});

test("a second upload of a layer gets a 409 with the offset while the first goes on, and changes nothing", async (t) => {
  const platform = await startPlatform(t);
  const bytes = randomBytes(300_000);
  const digest = digestOf(bytes);
  const cut = await begin(platform, digest, bytes.subarray(0, 50_000), bytes.length);
  for (const second of [
    await send(platform, "PUT", digest, new Uint8Array(bytes)),
    await patch(platform, digest, bytes.subarray(50_000), 50_000),
  ]) {
    assert.equal(second.status, 409);
    assert.equal(JSON.parse(second.text).code, "CONFLICT");
    assert.match(JSON.parse(second.text).detail, /Another upload of the layer [0-9a-f]{64} is under way/);
    assert.equal(second.headers.get("upload-offset"), "50000");
  }
  await cut();
  assert.equal((await continued(platform, digest, bytes.subarray(50_000), 50_000)).status, 200);
});

test("an upload is continued only from the offset that is there, within the limit, and by a PATCH that says where", async (t) => {
  const platform = await startPlatform(t, { artifactMaxBytes: 1000 });
  const bytes = randomBytes(1000);
  const digest = digestOf(bytes);
  await (await begin(platform, digest, bytes.subarray(0, 600), bytes.length))();
  const wrong = await patch(platform, digest, bytes.subarray(500), 500);
  assert.deepEqual([wrong.status, wrong.headers.get("upload-offset")], [409, "600"]);
  const large = await patch(platform, digest, bytes.subarray(0, 401), 600);
  assert.deepEqual([large.status, JSON.parse(large.text).code], [413, "TOO_LARGE"]);
  for (const offset of ["", "-1", "600x", "1e3"]) {
    const { status, text } = await patch(platform, digest, bytes.subarray(600), offset);
    assert.deepEqual([status, JSON.parse(text).code], [400, "BAD_INPUT"], offset);
  }
  assert.equal((await patch(platform, digest, bytes.subarray(600), 600, "?0")).status, 400);
  assert.equal((await continued(platform, digest, bytes.subarray(600), 600)).status, 200);
  assert.equal((await patch(platform, digest, Buffer.from(""), 1000)).status, 200, "it is whole already");
});

test("a sender that falls silent is let go, and another goes on", async (t) => {
  // On a busy machine an honest sender says nothing for some tenths of a second, too.
  const platform = await startPlatform(t, { uploadIdleMs: 1_000 });
  const bytes = randomBytes(1000);
  const digest = digestOf(bytes);
  const cut = await begin(platform, digest, bytes.subarray(0, 600), bytes.length);
  assert.equal((await continued(platform, digest, bytes.subarray(600), 600)).status, 200);
  await cut();
});

test("a sender that waits for the store is let wait: until it begins, and until it has ended", async (t) => {
  const uploadIdleMs = 500;
  const platform = await startPlatform(t, { uploadIdleMs });
  const { artifacts } = platform;
  const put = artifacts.put.bind(artifacts);
  const slow: typeof put = async (...given) => {
    await delay(2 * uploadIdleMs);
    await put(...given);
    await delay(2 * uploadIdleMs);
  };
  Object.assign(artifacts, { put: slow });
  // Larger than what is read ahead: the sender has not sent it all before the store begins.
  const bytes = randomBytes(4_000_000);
  assert.equal((await send(platform, "PUT", digestOf(bytes), new Uint8Array(bytes))).status, 200);
});

test("a sender that falls silent is let go also where the layer is there, from somebody else", async (t) => {
  const platform = await startPlatform(t, { uploadIdleMs: 500 });
  const bytes = randomBytes(1000);
  await platform.upload(bytes);
  await deploy(platform, await sample(platform), { env: ENV, environment: "staging" });
  const { data } = await platform.ask(
    'mutation { createKey(input: {name: "d", scopes: ["deploy"], app: "shop", environment: "staging"}) { secret } }',
  );
  const sending = request(`${platform.url}/layers/${digestOf(bytes)}`, {
    method: "PUT",
    headers: { authorization: data.createKey.secret, "content-length": bytes.length },
  });
  sending.write(bytes.subarray(0, 600));
  await once(sending, "error");
});

test("what went on from wrong bytes is refused and forgotten", async (t) => {
  const platform = await startPlatform(t);
  const bytes = randomBytes(1000);
  const digest = digestOf(bytes);
  await (await begin(platform, digest, randomBytes(600), bytes.length))();
  const { status, text } = await continued(platform, digest, bytes.subarray(600), 600);
  assert.deepEqual([status, JSON.parse(text).code], [400, "LAYER_CORRUPT"]);
  assert.equal((await send(platform, "HEAD", digest)).status, 404);
  assert.equal((await send(platform, "PUT", digest, new Uint8Array(bytes))).status, 200);
});

test("layers need a key with the scope deploy and a digest for a name", async (t) => {
  const platform = await startPlatform(t);
  const { data } = await platform.ask('mutation { createKey(input: {name: "r", scopes: ["read"]}) { secret } }');
  const digest = digestOf(Buffer.from("x"));
  assert.equal((await send(platform, "PUT", digest, "x", data.createKey.secret)).status, 403);
  assert.equal((await send(platform, "PUT", digest, "x", "svc_wrong")).status, 401);
  assert.equal((await send(platform, "PUT", "..%2f..%2fetc", "x")).status, 400);
  assert.equal((await send(platform, "PUT", digest.toUpperCase(), "x")).status, 400);
  assert.equal(
    (await send(platform, "PATCH", digest, "x", data.createKey.secret, { "upload-offset": "0" })).status,
    403,
  );
  assert.equal((await send(platform, "DELETE", digest)).status, 405);
});
