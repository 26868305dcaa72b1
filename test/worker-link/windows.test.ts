/** Bodies that stream: neither end sends more than the other takes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable } from "node:stream";
import { test } from "node:test";
import { STREAM_EXCESS_MAX_BYTES, STREAM_WINDOW_BYTES } from "../../src/domain/limits.ts";
import { Departure } from "../../src/domain/request.ts";
import { FRAME, MORE } from "../../src/domain/worker-protocol.ts";
import { openLink } from "./link-rig.ts";

const PART = Buffer.alloc(64 * 1024, "x");

test("A streamed body waits with its caller until the worker has room for more", async (t) => {
  const rig = await openLink(t, { kind: "load-balanced" });
  const window = 2 * PART.length;
  const { peer, id } = await rig.join({}, window);
  let parts = 0;
  const body = new Readable({
    highWaterMark: PART.length,
    read() {
      this.push(parts++ < 40 ? Buffer.from(PART) : null);
    },
  });
  const answer = rig.request(body);
  const { channel } = await peer.next(FRAME.REQUEST);
  let got = 0;
  while (got < window) got += (await peer.next(FRAME.BODY)).body.length;
  rig.link().drain(id, 30_000);
  await peer.next(FRAME.DRAIN);
  assert.ok(parts < 8, `${parts} parts were read`);
  assert.deepEqual(peer.seen, []);

  for (let told = 0, more = true; more; ) {
    if (got > told) peer.send(FRAME.WINDOW, channel, { bytes: got - told });
    told = got;
    const frame = await peer.next(FRAME.BODY);
    got += frame.body.length;
    more = (frame.flags & MORE) !== 0;
  }
  assert.equal(got, 40 * PART.length);
  peer.send(FRAME.RESULT, channel, { status: 200, headers: [] }, Buffer.from("done"));
  assert.equal((await answer).status, 200);
});

test("A body that waits for room ends with its caller", async (t) => {
  const rig = await openLink(t, { kind: "load-balanced" });
  const { peer } = await rig.join({}, PART.length);
  const caller = new Departure();
  const body = new Readable({
    read() {
      this.push(Buffer.from(PART));
    },
  });
  const answer = rig.request(body, caller);
  await peer.next(FRAME.BODY);
  caller.gone();
  await assert.rejects(answer, { code: "WORKER_LOST" });
  await peer.next(FRAME.CANCEL);
  if (!body.destroyed) await once(body, "close");
});

test("A worker that answers far beyond its window is killed, and its caller sees the answer break off", async (t) => {
  const stuck = Promise.withResolvers<string>();
  const rig = await openLink(t, { kind: "load-balanced" }, { workerStuck: (_id, reason) => stuck.resolve(reason) });
  const { peer } = await rig.join();
  const asked = rig.request(Buffer.from("{}"));
  const { channel } = await peer.next(FRAME.REQUEST);
  peer.send(FRAME.RESULT, channel, { status: 200, headers: [] }, PART, MORE);
  const { body } = await asked;
  const broke = once(body as Readable, "error").then(([error]) => error);
  const most = (STREAM_WINDOW_BYTES + STREAM_EXCESS_MAX_BYTES) / PART.length;
  for (let n = 0; n <= most; n++) peer.send(FRAME.BODY, channel, undefined, PART, MORE);
  await peer.closed;
  assert.match(await stuck.promise, /bytes ahead of its reader/);
  assert.equal((await broke).code, "WORKER_LOST");
});

test("A caller who has gone before its request is handed out keeps no worker", async (t) => {
  const rig = await openLink(t, { kind: "load-balanced" });
  const { peer } = await rig.join();
  const caller = new Departure();
  caller.gone();
  await assert.rejects(rig.request(Buffer.from("{}"), caller), { code: "WORKER_LOST" });
  const asked = rig.request(Buffer.from("next"));
  const { channel, body } = await peer.next(FRAME.REQUEST);
  assert.equal(String(body), "next");
  peer.send(FRAME.RESULT, channel, { status: 200, headers: [] }, Buffer.from("done"));
  assert.equal((await asked).status, 200);
});

test("A streamed answer that nobody wants to the end is cancelled, whoever gave it up; one that was read is not", async (t) => {
  const rig = await openLink(t, { kind: "load-balanced" });
  const { peer } = await rig.join();
  const asked = rig.request(Buffer.from("{}"));
  const { channel } = await peer.next(FRAME.REQUEST);
  peer.send(FRAME.RESULT, channel, { status: 200, headers: [] }, PART, MORE);
  const { body } = await asked;
  (body as Readable).destroy();
  assert.equal((await peer.next(FRAME.CANCEL)).channel, channel);
  peer.send(FRAME.BODY, channel, { failed: true });

  const again = rig.request(Buffer.from("{}"));
  const second = await peer.next(FRAME.REQUEST);
  peer.send(FRAME.RESULT, second.channel, { status: 200, headers: [] }, PART, MORE);
  peer.send(FRAME.BODY, second.channel, {});
  const whole = (await again).body as Readable;
  await once(whole.resume(), "close");
  const last = rig.request(Buffer.from("{}"));
  const third = await peer.next(FRAME.REQUEST);
  assert.ok(!peer.seen.some(({ type }) => type === FRAME.CANCEL));
  peer.send(FRAME.RESULT, third.channel, { status: 200, headers: [] }, Buffer.from("done"));
  assert.equal((await last).status, 200);
});
