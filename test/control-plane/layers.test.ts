import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";
import { test } from "node:test";
import { startPlatform, type TestPlatform } from "./platform.ts";

const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

async function send(platform: TestPlatform, method: string, digest: string, body?: BodyInit, key = platform.adminKey) {
  const response = await fetch(`${platform.url}/layers/${digest}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
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

test("an upload that breaks off leaves nothing and can be repeated", async (t) => {
  const platform = await startPlatform(t);
  const bytes = randomBytes(300_000);
  const digest = digestOf(bytes);
  const broken = request(`${platform.url}/layers/${digest}`, {
    method: "PUT",
    headers: { authorization: platform.adminKey, "content-length": bytes.length },
  });
  const closed = new Promise((resolve) => broken.on("error", resolve));
  await new Promise((resolve) => broken.write(bytes.subarray(0, 100_000), resolve));
  broken.destroy(new Error("cut"));
  await closed;
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
  assert.equal((await send(platform, "DELETE", digest)).status, 405);
});
