/** The link between a gateway and the owner of the jobs: who gets in, and what becomes of both ends when one does not keep to it. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { GATEWAY_OUTPUT_MAX_BYTES, STREAM_ANSWER_MAX_BYTES } from "../../src/domain/limits.ts";
import { dialPrivately } from "../../src/gateway/private-calls.ts";
import { RATE_LIMITS_DEFAULT } from "../../src/gateway/rate-limits.ts";
import { dialOwner, greetOwner } from "../../src/gateway-link/dial.ts";
import type { JobValue } from "../../src/gateway-link/job-values.ts";
import type { OwnerLink } from "../../src/gateway-link/owner-link.ts";
import { LINK_FRAME, LINK_VERSIONS } from "../../src/gateway-link/protocol.ts";
import { encodeFrame, type Frame, FrameReader, parseHead } from "../../src/lib/frames.ts";
import { eventually } from "../eventually.ts";
import { KEY, type Platform, startPlatform } from "../gateway/support.ts";
import type { Linked } from "./rig.ts";

async function started(t: TestContext, options: Parameters<typeof startPlatform>[1] = {}) {
  const platform = await startPlatform(t, { ...options, link: true });
  return { platform, linked: platform.linked! };
}

/** Says something on a connection of its own; resolves what the owner says, once that has closed it. */
async function dial(path: string, ...says: readonly Buffer[][]): Promise<Frame[]> {
  const socket = connect(path);
  socket.on("error", () => {});
  const reader = new FrameReader(1_000_000);
  const frames: Frame[] = [];
  socket.on("data", (chunk) => frames.push(...reader.push(chunk)));
  for (const parts of says) for (const part of parts) socket.write(part);
  if (!socket.destroyed) await once(socket, "close");
  return frames;
}

function hello(
  linked: Linked,
  link: number[] = [LINK_VERSIONS.min, LINK_VERSIONS.max],
  secret = linked.secret,
): Buffer[] {
  return encodeFrame(LINK_FRAME.HELLO, 0, { link, secret, pid: 1 });
}

async function answersCalls(platform: Platform): Promise<void> {
  const { status, json } = await platform.post("/v2/jobs/run", { input: {} });
  assert.deepEqual([status, json.status], [200, "IN_QUEUE"]);
}

test("Who does not know the secret, or says anything else first, is not let in, and harms nobody", async (t) => {
  const { platform, linked } = await started(t);
  const [refused] = await dial(linked.linkPath, hello(linked, undefined, "guessed"));
  assert.equal(refused?.type, LINK_FRAME.REFUSED);
  assert.match(parseHead<{ reason: string }>(refused!).reason, /secret is not that of this platform/);
  assert.deepEqual(await dial(linked.linkPath, encodeFrame(LINK_FRAME.ASK, 1, { op: "find", id: "x" })), []);
  assert.deepEqual(await dial(linked.linkPath, [Buffer.alloc(64, 0xff)]), [], "a frame of 4 GiB");
  assert.deepEqual(await dial(linked.linkPath, [Buffer.from("GET / HTTP/1.1\r\n\r\n")]), []);
  assert.deepEqual(await dial(linked.linkPath, encodeFrame(LINK_FRAME.HELLO, 0, { link: "all" })), []);
  await answersCalls(platform);
  assert.deepEqual(linked.gone, []);
});

test("Ends of two releases agree on the newest version that both speak, and others part in words", async (t) => {
  const { linked } = await started(t);
  const { min, max } = LINK_VERSIONS;
  const [later] = await dial(linked.linkPath, hello(linked, [max + 1, max + 2]));
  assert.match(parseHead<{ reason: string }>(later!).reason, /versions 2 to 3 are not spoken here/);
  const [earlier] = await dial(linked.linkPath, hello(linked, [min - 2, min - 1]));
  assert.match(parseHead<{ reason: string }>(earlier!).reason, /are not spoken here/);
  const socket = connect(linked.linkPath);
  const reader = new FrameReader(1_000_000);
  socket.write(Buffer.concat(hello(linked, [min, max + 1])));
  const [welcome] = reader.push((await once(socket, "data"))[0]);
  assert.deepEqual([welcome?.type, parseHead<{ link: number }>(welcome!).link], [LINK_FRAME.WELCOME, max]);
  socket.destroy();
});

test("A gateway that does not keep to the protocol loses its link alone", async (t) => {
  const { platform, linked } = await started(t);
  const wrong: Record<string, Buffer[]> = {
    "a question that there is not": encodeFrame(LINK_FRAME.ASK, 1, { op: "constructor" }),
    "a head that is no JSON": encodeFrame(LINK_FRAME.ASK, 1, "{"),
    "a long head that is not there": encodeFrame(LINK_FRAME.ASK, 1, undefined, Buffer.from([0, 0, 0, 9]), 2),
    "a frame of the owner's": encodeFrame(LINK_FRAME.WELCOME, 0, {}),
  };
  for (const [what, parts] of Object.entries(wrong)) {
    const before = linked.gone.length;
    await dial(linked.linkPath, hello(linked), parts);
    await eventually(() => assert.equal(linked.gone.length, before + 1, what));
    assert.match(linked.gone.at(-1)!, /broke the protocol/, what);
  }
  await answersCalls(platform);
});

test("What platforms ask each other for management is a list of questions, and nothing that an object has besides", async (t) => {
  const { platform, linked } = await started(t);
  for (const what of ["constructor", "__proto__", "hasOwnProperty", "news", ""]) {
    await assert.rejects(linked.link.ask("managed", { what, given: [] }), { code: "INTERNAL" }, what);
  }
  // Of one that shares nothing nobody asks.
  await assert.rejects(linked.link.ask("managed", { what: "health", given: ["jobs"] }), { code: "MOVED" });
  await assert.rejects(linked.link.ask("news", { follower: "f", wish: {} }), { code: "MOVED" });
  await answersCalls(platform);
});

test("What workers a platform is asked to have ready is looked at before anything is done; one of the release before names endpoints alone", async (t) => {
  const asked: unknown[] = [];
  const makeReady = async (wishes: readonly object[]) => asked.push(wishes);
  const { platform, linked } = await started(t, { makeReady });
  const ids = ["jobs"];
  const wish = { endpointId: "jobs", revision: "r", workers: 2 };
  const wrong: Record<string, object> = {
    nothing: {},
    "no list": { endpointIds: "jobs" },
    "no id": { endpointIds: [null] },
    "an id without end": { endpointIds: ["x".repeat(100_000)] },
    "endpoints without end": { endpointIds: Array(100_000).fill("x") },
    "workers without end": { endpointIds: ids, workers: Array(100_000).fill(wish) },
    "fewer than none": { endpointIds: ids, workers: [{ ...wish, workers: -1 }] },
    "a part of one": { endpointIds: ids, workers: [{ ...wish, workers: 0.5 }] },
    "no number": { endpointIds: ids, workers: [{ ...wish, workers: "2" }] },
    "no revision": { endpointIds: ids, workers: [{ endpointId: "jobs", workers: 1 }] },
  };
  for (const [what, given] of Object.entries(wrong)) {
    await assert.rejects(linked.link.ask("makeReady", given), { code: "INTERNAL" }, what);
  }
  assert.deepEqual(asked, []);
  const { value } = await linked.link.ask<{ ready: number }>("makeReady", { endpointIds: ids, workers: [wish] });
  await linked.link.ask("makeReady", { endpointIds: ids });
  assert.deepEqual(asked, [[wish], [{ endpointId: "jobs", revision: "", workers: 0 }]]);
  assert.equal(value.ready, 1);
  await answersCalls(platform);
});

test("What is on the private socket for calls counts only behind the secret, with the caller's own address", async (t) => {
  const seen: unknown[] = [];
  const { platform, linked } = await started(t, {
    fallback: (req, res) => {
      seen.push([req.socket.remoteAddress, req.socket.localPort, req.headers["x-forwarded-for"]]);
      res.end("told");
    },
  });
  const stranger = connect(linked.callsPath);
  stranger.end(Buffer.concat([Buffer.alloc(33), Buffer.from("GET /graphql HTTP/1.1\r\nHost: x\r\n\r\n")]));
  assert.equal(await text(stranger), "");
  const response = await fetch(`${platform.url}/graphql`, { headers: { "x-forwarded-for": "8.8.8.8" } });
  assert.equal(await response.text(), "told");
  assert.deepEqual(seen, [["127.0.0.1", platform.port, "8.8.8.8"]]);
});

test("What is passed on is answered also while the owner closes: it may be another's by now", async (t) => {
  const begun = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const { platform, linked } = await started(t, {
    fallback: (req, res) => {
      begun.resolve();
      held.promise.then(() => res.end(`told ${req.url}`));
    },
  });
  const caller = connect(platform.port, "127.0.0.1");
  const passing = await dialPrivately(linked.callsPath, Buffer.from(linked.secret, "base64url"), caller);
  const answers = text(passing);
  const ask = (path: string) => passing.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  ask("/first");
  await begun.promise;
  const closed = linked.owner.close(60_000);
  ask("/second");
  held.resolve();
  assert.match(await answers, /^HTTP\/1\.1 200 [\s\S]*told \/firstHTTP\/1\.1 200 [\s\S]*told \/second$/);
  await closed;
  caller.destroy();
});

test("A caller that leaves ends its waiting and its request at the owner", async (t) => {
  let gone = () => {};
  const left = new Promise<void>((resolve) => {
    gone = resolve;
  });
  const { promise: came, resolve: come } = Promise.withResolvers<void>();
  const { platform } = await started(t, {
    forward: ({ departure }) => {
      departure.onGone = gone;
      come();
      return new Promise(() => {});
    },
  });
  const stop = new AbortController();
  const call = fetch(`${platform.url}/lb/web/x`, { headers: { authorization: KEY }, signal: stop.signal });
  await came;
  stop.abort();
  await assert.rejects(call);
  await left;
});

test("A caller that does not read holds up the function, and nobody's memory", async (t) => {
  let made = 0;
  const { platform } = await started(t, {
    forward: async () => ({
      status: 200,
      headers: [],
      body: new Readable({
        read() {
          made += 65_536;
          this.push(Buffer.alloc(65_536));
        },
      }),
      workerId: "w-1",
      timing: { queueMs: 0, bootMs: 0, importMs: 0, execMs: 0 },
    }),
  });
  const socket: Socket = connect(platform.port, "127.0.0.1");
  socket.pause();
  socket.write(`GET /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`);
  let before = -1;
  // It goes on until every buffer on the way is full.
  await eventually(() => {
    const now = made;
    const stands = now > 0 && now === before;
    before = now;
    assert.ok(stands);
  });
  assert.ok(made < 64 * 1024 * 1024, `${made} bytes were made`);
  await answersCalls(platform);
  socket.destroy();
});

test("A change of a key waits until the gateway has dropped what it knew, one of a worker does not", async (t) => {
  const { platform, linked } = await started(t);
  await answersCalls(platform);
  const dropped: string[] = [];
  linked.link.onChange(({ table, id }) => dropped.push(`${table} ${id}`));
  assert.equal(linked.door.changed({ table: "workers", id: "w-1" }), undefined);
  await linked.door.changed({ table: "keys", id: "k-1" });
  assert.deepEqual(dropped, ["workers w-1", "keys k-1"]);
});

test("Only as long as the owner answers a gateway may rely on what it knows: an owner that answers a change has waited for it no longer", async (t) => {
  const mayAnswer = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    const reader = new FrameReader(1_000_000);
    const send = (type: number, head?: object) => socket.write(Buffer.concat(encodeFrame(type, 0, head)));
    // It is heard all the same.
    const says = setInterval(() => send(LINK_FRAME.PING), 100);
    socket.on("close", () => clearInterval(says));
    socket.on("data", (chunk) => {
      for (const { type } of reader.push(chunk)) {
        if (type === LINK_FRAME.HELLO) send(LINK_FRAME.WELCOME, { link: LINK_VERSIONS.max, settings: {} });
        else if (type === LINK_FRAME.PING) mayAnswer.promise.then(() => send(LINK_FRAME.PONG)).catch(() => {});
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const { link } = await greetOwner(socket, undefined);
  t.after(() => link.destroy());
  assert.equal(link.isSure, true);
  let silenceMaxMs = 2_000;
  link.watch(() => silenceMaxMs);
  await eventually(() => assert.equal(link.isSure, false));
  mayAnswer.resolve();
  await eventually(() => assert.equal(link.isSure, true));
  const closed = new Promise<string>((resolve) => {
    link.onClosed = resolve;
  });
  // How long it may be silent is asked each time.
  silenceMaxMs = -1;
  await closed;
});

test("A gateway that lost its link answers those who wait with 503, and their jobs go on", async (t) => {
  const { platform, linked } = await started(t);
  const call = platform.post("/v2/jobs/runsync", { input: { x: 1 } });
  const [job] = await eventually(async () => {
    const jobs = await platform.queue.list("jobs", { limit: 1 });
    assert.equal(jobs.length, 1);
    return jobs;
  });
  linked.link.close();
  const { status, json } = await call;
  assert.deepEqual([status, json.code], [503, "SHUTTING_DOWN"]);
  assert.equal((await platform.queue.find(job!.id))?.state, "IN_QUEUE");
  assert.deepEqual((await platform.post("/v2/jobs/run", { input: {} })).status, 503);
});

test("Questions whose heads are large, and bodies of megabytes, come through as they are", async (t) => {
  const { platform } = await started(t);
  platform.work(({ input }) => ({ state: "COMPLETED", output: input }));
  const large = "ü".repeat(4_000_000);
  const { json } = await platform.post("/v2/jobs/runsync", { input: { large } });
  assert.equal(json.output.large, large);
  platform.work(() => ({ state: "FAILED", error: "e".repeat(200_000) }), "other");
  const failed = await platform.post("/v2/other/runsync", { input: {} });
  assert.equal(failed.json.error.length, 200_000);
});

test("A large output does not come with the end of its job, but with a question of its own; gateways of the release before take it so", async (t) => {
  const { platform, linked } = await started(t);
  const output = Buffer.from(JSON.stringify("x".repeat(GATEWAY_OUTPUT_MAX_BYTES)));
  platform.work(() => ({ state: "COMPLETED", output }));
  const { id } = (await platform.post("/v2/jobs/run", { input: {} })).json;
  type Ended = { readonly job: JobValue };
  const asked = (given: object) => linked.link.ask<Ended>("wait", { id, timeoutMs: 60_000, ...given });
  const before = await asked({});
  assert.deepEqual([before.value.job.outputBytes, before.value.job.leftOutBytes], [output.length, undefined]);
  assert.ok(output.equals(before.body));
  const now = await asked({ outputMaxBytes: GATEWAY_OUTPUT_MAX_BYTES });
  assert.deepEqual([now.value.job.outputBytes, now.value.job.leftOutBytes, now.body.length], [-1, output.length, 0]);
  for (const path of [`status/${id}`, `status-sync/${id}`, "runsync"]) {
    const { json } = await (path === "runsync"
      ? platform.post(`/v2/jobs/${path}`, { input: {} })
      : platform.get(`/v2/jobs/${path}`));
    assert.ok(json.output.length === GATEWAY_OUTPUT_MAX_BYTES, path);
  }
});

test("A large chunk does not come with the first look at it; gateways of the release before take it so", async (t) => {
  const { platform, linked } = await started(t);
  const { id } = (await platform.post("/v2/jobs/run", { input: {} })).json;
  const [claim] = await platform.queue.claim("jobs", "w-1", 1, new AbortController().signal);
  const chunk = Buffer.from(JSON.stringify("x".repeat(STREAM_ANSWER_MAX_BYTES)));
  await platform.queue.chunk(claim!, chunk);
  type Read = { readonly taken: { readonly leftOutBytes?: number }; readonly lengths: readonly number[] };
  const asked = (given: object) => linked.link.ask<Read>("readChunks", { id, after: 0, holdMs: 0, ...given });
  const before = await asked({});
  assert.deepEqual([before.value.lengths, before.value.taken.leftOutBytes], [[chunk.length], undefined]);
  const now = await asked({ chunkMaxBytes: STREAM_ANSWER_MAX_BYTES });
  assert.deepEqual([now.value.lengths, now.value.taken.leftOutBytes, now.body.length], [[], chunk.length, 0]);
  for (const query of ["?after=0", ""]) {
    const { json } = await platform.get(`/v2/jobs/stream/${id}${query}`);
    assert.equal(json.stream[0].output.length, STREAM_ANSWER_MAX_BYTES);
  }
});

test("Calls are counted for all gateways together, to the last one", async (t) => {
  const { linked } = await started(t, {
    settings: { rateLimits: { ...RATE_LIMITS_DEFAULT, purge: 3 } },
    deps: { monotonic: () => 0 },
  });
  const { link: other } = await dialOwner(linked.linkPath, linked.secret);
  t.after(() => other.close());
  const take = (link: OwnerLink) => link.ask("rate", { endpointId: "jobs", rate: "purge" });
  await take(linked.link);
  await take(other);
  await take(linked.link);
  for (const link of [linked.link, other]) {
    await assert.rejects(take(link), { code: "RATE_LIMITED", retryAfterS: 10 });
  }
});

test("A gateway that asks for more than it reads is cut off", async (t) => {
  const { platform, linked } = await started(t);
  const output = Buffer.from(JSON.stringify("x".repeat(16 * 1024 * 1024)));
  platform.work(() => ({ state: "COMPLETED", output }));
  const { json } = await platform.post("/v2/jobs/runsync", { input: {} });
  const socket = connect(linked.linkPath);
  socket.on("error", () => {});
  socket.pause();
  socket.write(Buffer.concat(hello(linked)));
  for (let n = 1; n <= 40; n++) {
    socket.write(Buffer.concat(encodeFrame(LINK_FRAME.ASK, n, { op: "find", id: json.id })));
  }
  await eventually(() => assert.deepEqual(linked.gone, ["it does not read what it asked for"]));
  socket.destroy();
  await answersCalls(platform);
});
