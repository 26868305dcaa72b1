import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import { signLayer } from "../../src/domain/layer-ticket.ts";
import { LAYER_SENDS_MAX, LAYER_TICKET_S } from "../../src/domain/limits.ts";
import { eventually } from "../eventually.ts";
import { openFiles } from "../open-files.ts";
import { breakOff } from "./break-off.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

const BYTES = randomBytes(300_000);

async function withLayer(platform: TestPlatform) {
  const digest = await platform.upload(BYTES);
  const ticket = signLayer(platform.ticketKey, digest, "h-1", Date.now());
  const get = async (headers: Record<string, string> = {}, method = "GET") => {
    const answer = await fetch(`${platform.url}/layers/${digest}`, {
      method,
      headers: { authorization: `Bearer ${ticket}`, ...headers },
    });
    return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
  };
  return { digest, ticket, get };
}

test("a host fetches a layer with its ticket, whole, in one range or in the rest from where it broke off", async (t) => {
  const { digest, get } = await withLayer(await startPlatform(t));
  const whole = await get();
  assert.equal(whole.status, 200);
  assert.deepEqual(whole.body, BYTES);
  assert.equal(whole.headers.get("etag"), `"${digest}"`);
  assert.match(whole.headers.get("cache-control")!, /private.*immutable/);
  for (const [range, start, end] of [
    ["bytes=0-0", 0, 0],
    ["bytes=100-199999", 100, 199_999],
    ["bytes=299999-", 299_999, 299_999],
    ["bytes=200000-999999999", 200_000, 299_999],
    ["bytes=-7", 299_993, 299_999],
    ["bytes=-999999999", 0, 299_999],
  ] as const) {
    const part = await get({ range, "if-range": `"${digest}"` });
    assert.equal(part.status, 206, range);
    assert.equal(part.headers.get("content-range"), `bytes ${start}-${end}/300000`);
    assert.deepEqual(part.body, BYTES.subarray(start, end + 1));
  }
  assert.deepEqual((await get({ range: "bytes=5-", "if-range": '"another"' })).body, BYTES);
  const head = await get({}, "HEAD");
  assert.deepEqual([head.status, head.headers.get("content-length"), head.body.length], [200, "300000", 0]);
});

test("ranges that are not there, many at once or nonsense are refused with the layer's size", async (t) => {
  const { get } = await withLayer(await startPlatform(t));
  const many = `bytes=${Array.from({ length: 500 }, (_, n) => `${n}-${n}`).join(",")}`;
  for (const range of [
    "bytes=300000-",
    "bytes=9-3",
    "bytes=-0",
    "bytes=-",
    "bytes=0-1,5-9",
    many,
    "rows=0-1",
    "bytes=a-b",
  ]) {
    const { status, headers } = await get({ range });
    assert.deepEqual([status, headers.get("content-range")], [416, "bytes */300000"], range);
  }
});

test("a ticket is refused when it is forged, expired, for another layer, or for anything but to fetch", async (t) => {
  const platform = await startPlatform(t);
  const { digest, ticket } = await withLayer(platform);
  const other = await platform.upload(Buffer.from("another layer"));
  const now = Date.now();
  const [host, expires, mac] = ticket.slice("svcl_".length).split(".") as [string, string, string];
  const flipped = (mac[0] === "A" ? "B" : "A") + mac.slice(1);
  const codeOf = async (path: string, secret: string, method = "GET") => {
    const answer = await fetch(`${platform.url}${path}`, { method, headers: { authorization: `Bearer ${secret}` } });
    return `${answer.status} ${((await answer.json()) as { code: string }).code}`;
  };
  for (const forged of [
    `svcl_${host}.${expires}.${flipped}`,
    `svcl_${host}.${Number(expires) + 9}.${mac}`,
    `svcl_h-2.${expires}.${mac}`,
    `svcl_${host}.${expires}.`,
    "svcl_",
    `svcl_${expires}.${mac}`,
    `svcl_${host}.${expires}.${mac}.${mac}`,
    signLayer(randomBytes(32), digest, "h-1", now),
    signLayer(platform.ticketKey, other, "h-1", now),
  ]) {
    assert.equal(await codeOf(`/layers/${digest}`, forged), "403 WRONG_SIGNATURE", forged);
  }
  const expired = signLayer(platform.ticketKey, digest, "h-1", now - LAYER_TICKET_S * 1000);
  assert.equal(await codeOf(`/layers/${digest}`, expired), "403 URL_EXPIRED");
  const missing = createHash("sha256").update("nobody").digest("hex");
  const good = signLayer(platform.ticketKey, missing, "h-1", now);
  assert.equal(await codeOf(`/layers/${missing}`, good), "409 LAYER_MISSING");
  // Also with a ticket for it no path leads out of the layers.
  for (const path of [
    "../platform.db",
    "..%2fplatform.db",
    `${digest}/../${other}x`,
    `${digest}%00`,
    digest.toUpperCase(),
    "",
  ]) {
    assert.match(
      await codeOf(`/layers/${path}`, signLayer(platform.ticketKey, path, "h-1", now)),
      /^40[04] |^401 /,
      path,
    );
  }
  for (const method of ["PUT", "PATCH", "DELETE", "POST"]) {
    assert.equal(await codeOf(`/layers/${digest}`, ticket, method), "405 METHOD_NOT_ALLOWED");
  }
  assert.equal(await codeOf("/graphql", ticket, "POST"), "401 WRONG_KEY");
  // A key is for uploads: who has one cannot read a layer of another's code.
  assert.equal(await codeOf(`/layers/${digest}`, platform.adminKey), "405 METHOD_NOT_ALLOWED");
  assert.equal(await codeOf(`/layers/${digest}`, ""), "401 MISSING_KEY");
});

/** Descriptors of this process on files of the layers. */
function openLayers(dir: string): number {
  return openFiles(process.pid).filter((file) => file.startsWith(`${dir}/layers/`)).length;
}

test("a host that stops to read is cut off", async (t) => {
  const platform = await startPlatform(t, { uploadIdleMs: 500 });
  const bytes = Buffer.alloc(60_000_000, randomBytes(1000));
  const digest = await platform.upload(bytes);
  const ticket = signLayer(platform.ticketKey, digest, "h-1", Date.now());
  const { port } = new URL(platform.url);
  const slow = connect(Number(port), "127.0.0.1");
  const closed = once(slow, "close");
  const begun = once(slow, "data");
  slow.on("error", () => {});
  slow.write(`GET /layers/${digest} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ticket}\r\n\r\n`);
  await begun;
  slow.pause();
  await eventually(() => assert.equal(openLayers(platform.dir), 0));
  slow.resume();
  await closed;
  assert.ok(slow.bytesRead < bytes.length, `${slow.bytesRead} bytes came`);
});

test("a host gets so many answers at once, and another its own", async (t) => {
  const platform = await startPlatform(t);
  const digest = await platform.upload(Buffer.alloc(30_000_000, randomBytes(1000)));
  const ask = async (host: string) => {
    const ticket = signLayer(platform.ticketKey, digest, host, Date.now());
    const asked = request(`${platform.url}/layers/${digest}`, { headers: { authorization: `Bearer ${ticket}` } });
    asked.on("error", () => {}).end();
    t.after(() => asked.destroy());
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    answer.on("error", () => {});
    return answer;
  };
  const taken = await Promise.all(Array.from({ length: LAYER_SENDS_MAX }, () => ask("h-1")));
  assert.ok(taken.every(({ statusCode }) => statusCode === 200));
  const beyond = await ask("h-1");
  assert.equal(beyond.statusCode, 429);
  assert.equal(((await json(beyond)) as { code: string }).code, "RATE_LIMITED");
  assert.equal((await ask("h-2")).statusCode, 200);
  taken[0]!.destroy();
  await eventually(async () => assert.equal((await ask("h-1")).statusCode, 200));
});

test("a host that is gone leaves no open file", async (t) => {
  const platform = await startPlatform(t);
  const digest = await platform.upload(Buffer.alloc(60_000_000, randomBytes(1000)));
  const ticket = signLayer(platform.ticketKey, digest, "h-1", Date.now());
  const gone = request(`${platform.url}/layers/${digest}`, { headers: { authorization: `Bearer ${ticket}` } });
  gone.on("error", () => {}).end();
  const [answer] = await once(gone, "response");
  await once(answer, "readable");
  answer.on("error", () => {});
  gone.destroy();
  await eventually(() => assert.equal(openLayers(platform.dir), 0));
});

test("hosts that are gone before their answer begins leave no open file", async (t) => {
  const platform = await startPlatform(t);
  const digest = await platform.upload(BYTES);
  const ticket = signLayer(platform.ticketKey, digest, "h-1", Date.now());
  const head = `GET /layers/${digest} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ticket}\r\n\r\n`;
  await breakOff(platform.url, head, 200);
  await eventually(() => assert.equal(openLayers(platform.dir), 0));
});

test("a machine that joins is told where to dial, or that it cannot join and what to do", async (t) => {
  const platform = await startPlatform(t);
  const there = await fetch(`${platform.url}/hosts/join`);
  assert.equal(there.status, 200);
  const { version, ...told } = (await there.json()) as Record<string, unknown>;
  assert.deepEqual(
    [told, typeof version],
    [{ protocol: 1, oldest: 1, port: 8788, host: "", fingerprint: "ab".repeat(32) }, "string"],
  );
  assert.equal((await fetch(`${platform.url}/hosts/join`, { method: "POST" })).status, 405);
  platform.workerPort.is = undefined;
  const away = await fetch(`${platform.url}/hosts/join`);
  assert.equal(away.status, 404);
  assert.match(await away.text(), /SVC_WORKER_LISTEN/);
});
