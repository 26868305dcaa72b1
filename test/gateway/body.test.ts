import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { BODIES_WHOLE_MAX_BYTES, BODY_ARRIVES_MAX_MS } from "../../src/domain/limits.ts";
import { BodyBudget, limitedStream, readBody } from "../../src/gateway/body.ts";
import { CallerWatch } from "../../src/gateway/caller.ts";
import { eventually } from "../eventually.ts";
import { RawConnection } from "./support.ts";

const MB = 1024 * 1024;
const NOW = () => 0;

/** A server whose handler is the test. */
async function serve(t: TestContext, handle: (req: IncomingMessage, res: ServerResponse) => void): Promise<number> {
  const server = createServer(handle).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

test("all bodies in memory share one budget; what does not fit is refused and takes nothing", async (t) => {
  const budget = new BodyBudget(10, NOW);
  const port = await serve(t, async (req, res) => {
    await setImmediate(); // As while the key is looked up.
    readBody(req, res, 100, budget).then(
      (body) => res.end(`read ${body.length}`),
      (error) => res.end(`refused ${error.code} ${error.retryAfterS}`),
    );
  });
  const post = (text: string) => {
    // It comes behind its head.
    const body = new Blob([text]).stream();
    const init: object = { method: "POST", body, duplex: "half" };
    return fetch(`http://127.0.0.1:${port}`, init).then((r) => r.text());
  };
  assert.equal(await post("123456"), "read 6");
  assert.equal(budget.usedBytes, 6);
  assert.equal(await post("123456"), "refused RATE_LIMITED 1");
  assert.equal(budget.usedBytes, 6);
  // One that is here whole is not kept out by those.
  const whole = new RawConnection(port).write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n123456");
  t.after(() => whole.socket.destroy());
  await whole.until(/read 6/);
  assert.equal(budget.usedBytes, 12);
  budget.give(12);
  assert.equal(await post("1234567890"), "read 10");
  assert.throws(() => budget.takeWhole(BODIES_WHOLE_MAX_BYTES + 1), { code: "RATE_LIMITED" });
});

test("bodies that take too long to arrive make room for others, and no more of them than need be", async (t) => {
  let now = 0;
  const budget = new BodyBudget(100, () => now);
  const port = await serve(t, (req, res) => {
    readBody(req, res, 100, budget).then(
      (body) => {
        budget.give(body.length);
        res.end(`read ${body.length}`);
      },
      (error) => res.end(`refused ${error.code}`),
    );
  });
  const post = (body: string) => fetch(`http://127.0.0.1:${port}`, { method: "POST", body }).then((r) => r.text());
  const stalled = async (bytes: number, used: number) => {
    const raw = new RawConnection(port);
    t.after(() => raw.socket.destroy());
    raw.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n${"x".repeat(bytes)}`);
    await eventually(() => assert.equal(budget.usedBytes, used));
    return raw;
  };
  const first = await stalled(40, 40);
  now = 2;
  const second = await stalled(40, 80);
  now = BODY_ARRIVES_MAX_MS;
  assert.equal(await post("x".repeat(50)), "refused RATE_LIMITED", "they have their time");
  now += 1;
  assert.equal(await post("x".repeat(50)), "read 50");
  assert.match(await first.until(/refused/), /refused SLOW_REQUEST/);
  assert.equal(budget.usedBytes, 40);
  // One whose own next part finds no room is refused as others are.
  now += 2;
  second.write("x".repeat(55));
  await eventually(() => assert.equal(budget.usedBytes, 95));
  second.write("x".repeat(5));
  assert.match(await second.until(/read/), /read 100/);
  const third = await stalled(60, 60);
  now += 2 * BODY_ARRIVES_MAX_MS;
  const fourth = await stalled(30, 90);
  third.write("x".repeat(20));
  assert.match(await third.until(/refused/), /refused SLOW_REQUEST/);
  fourth.write("x".repeat(70));
  assert.match(await fourth.until(/read/), /read 100/);
  assert.equal(budget.usedBytes, 0);
});

test("a large body arrives as it was sent, with its length or without; one that is cut gives its bytes back", async (t) => {
  const budget = new BodyBudget(100 * MB, NOW);
  const outcomes: (Buffer | string)[] = [];
  let done = Promise.withResolvers<void>();
  const port = await serve(t, (req, res) => {
    readBody(req, res, 20 * MB, budget).then(
      (body) => {
        budget.give(body.length);
        outcomes.push(body);
        res.end(() => done.resolve());
      },
      (error) => {
        outcomes.push(error.name);
        done.resolve();
      },
    );
    req.on("data", () => budget.usedBytes > 2 * MB && isCut && raw?.socket.resetAndDestroy());
  });
  let raw: RawConnection | undefined;
  let isCut = false;
  const sent = randomBytes(3 * MB + 5);
  for (const head of [`Content-Length: ${sent.length}`, "Transfer-Encoding: chunked"]) {
    for (isCut of [false, true]) {
      done = Promise.withResolvers();
      raw = new RawConnection(port).write(`POST / HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`);
      // All of it may arrive before the cut: the last part of that body is never sent.
      const part = isCut ? sent.subarray(0, -MB / 2) : sent;
      const parts = head.startsWith("T") ? [`${sent.length.toString(16)}\r\n`, part] : [part];
      if (head.startsWith("T") && !isCut) parts.push("\r\n0\r\n\r\n");
      for (const each of parts) raw.socket.write(each);
      await done.promise;
      raw.socket.destroy();
    }
  }
  assert.deepEqual(
    outcomes.map((outcome) => (typeof outcome === "string" ? outcome : sent.equals(outcome))),
    [true, "CallerGone", true, "CallerGone"],
  );
  assert.equal(budget.usedBytes, 0);
});

test("a caller that breaks off in the middle of its body gives its bytes back", async (t) => {
  const budget = new BodyBudget(100, NOW);
  const { promise: failed, resolve: fail } = Promise.withResolvers<Error>();
  const port = await serve(t, (req, res) => {
    readBody(req, res, 100, budget).catch(fail);
    req.once("data", () => raw.socket.resetAndDestroy());
  });
  const raw = new RawConnection(port).write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n12345");
  assert.equal((await failed).name, "CallerGone");
  assert.equal(budget.usedBytes, 0);
});

test("a caller that has left before its body is asked for is known to be gone, however the body is read", async (t) => {
  const budget = new BodyBudget(100, NOW);
  const { promise: left, resolve: leave } = Promise.withResolvers<{ req: IncomingMessage; res: ServerResponse }>();
  const port = await serve(t, (req, res) => {
    // As during the look-up of a key.
    req.once("close", () => leave({ req, res }));
    raw.socket.resetAndDestroy();
  });
  const raw = new RawConnection(port).write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n12345");
  const { req, res } = await left;
  await assert.rejects(readBody(req, res, 100, budget), { name: "CallerGone" });
  await assert.rejects(async () => (await limitedStream(req, 100).toArray()).length, { name: "CallerGone" });
  assert.equal(new CallerWatch().watch(req, res).aborted, true);
  assert.equal(new CallerWatch().follow(req, res).hasGone, true);
  assert.equal(new CallerWatch().followSocket(req.socket).hasGone, true);
  assert.equal(budget.usedBytes, 0);
});
