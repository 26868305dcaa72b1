import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { type TestContext, test } from "node:test";
import { toldOf } from "../../src/gateway/private-calls.ts";
import { createGateway } from "../../src/gateway/server.ts";
import { KEY, type Platform, RawConnection, startPlatform } from "./support.ts";

function runsync(n: number): string {
  const body = `{"input":{"n":${n}}}`;
  return (
    `POST /v2/jobs/runsync HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

const soon = () => AbortSignal.timeout(60_000);

test("closing answers what runs, refuses further calls on the connection and accepts no new one", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(runsync(1));
  const [job] = await platform.queue.claim("jobs", "w-1", 1, soon());
  const closed = platform.gateway.close(10_000);
  raw.write(runsync(2));
  await assert.rejects(platform.get("/v2/jobs/health"), /fetch failed/);
  await platform.queue.finish(job!, { state: "COMPLETED", output: job!.input });
  const text = await raw.untilClosed();
  assert.match(text, /^HTTP\/1.1 200 OK.*"output":\{"n":1\}\}HTTP\/1.1 503 .*SHUTTING_DOWN/s);
  await closed;
});

/** A connection of another platform that has been accepted; `other` is that one's end. */
async function passedOn(t: TestContext, platform: Platform): Promise<RawConnection> {
  const door = createNetServer({ allowHalfOpen: true }, (socket) => platform.gateway.acceptPrivately(socket));
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  t.after(() => door.close());
  const accepted = once(door, "connection");
  const other = new RawConnection((door.address() as AddressInfo).port);
  await accepted;
  return other;
}

test("what another platform has dialled for before is answered, and waited for, however late it comes", async (t) => {
  let isClosed = false;
  const platform = await startPlatform(t, { fallback: (_req, res) => res.end(`closed: ${isClosed}`) });
  const other = await passedOn(t, platform);
  const closed = platform.gateway.close(60_000).then(() => {
    isClosed = true;
  });
  await assert.rejects(platform.get("/v2/jobs/health"), /fetch failed/);
  other.write(`${toldOf(other.socket)}`);
  other.write("GET /console HTTP/1.1\r\nHost: x\r\n\r\n");
  assert.match(await other.untilClosed(), /^HTTP\/1.1 200 OK.*closed: false/s);
  await closed;
});

test("who has dialled and says nothing is cut off when the grace is over", async (t) => {
  const platform = await startPlatform(t);
  const other = await passedOn(t, platform);
  await platform.gateway.close(0);
  assert.equal(await other.untilClosed(), "");
});

test("idle connections do not delay closing", async (t) => {
  const platform = await startPlatform(t);
  await platform.get("/v2/jobs/health");
  const raw = new RawConnection(platform.port);
  await once(raw.socket, "connect");
  const started = performance.now();
  await platform.gateway.close(120_000);
  assert.ok(performance.now() - started < 60_000);
  raw.socket.destroy();
});

test("a long poll is answered with the job as it is as soon as closing begins", async (t) => {
  const platform = await startPlatform(t);
  const { json: job } = await platform.post("/v2/jobs/run", { input: {} });
  const raw = new RawConnection(platform.port);
  raw.write(`GET /v2/jobs/status-sync/${job.id} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`);
  await platform.get("/v2/jobs/health"); // The poll was read before this answer.
  await platform.gateway.close(10_000);
  assert.match(await raw.untilClosed(), /^HTTP\/1.1 200 OK.*IN_QUEUE/s);
});

test("a runsync that outlasts the grace is answered with the job as it is; the job stays", async (t) => {
  const platform = await startPlatform(t);
  const raw = new RawConnection(platform.port).write(runsync(1));
  const [job] = await platform.queue.claim("jobs", "w-1", 1, soon());
  await platform.gateway.close(50);
  assert.match(await raw.untilClosed(), /^HTTP\/1.1 200 OK.*IN_PROGRESS/s);
  assert.equal(await platform.queue.finish(job!, { state: "COMPLETED", output: job!.input }), true);
});

test("a load-balanced call that outlasts the grace is answered 503", async (t) => {
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  const platform = await startPlatform(t, {
    forward: ({ departure }) => {
      start();
      return new Promise((_, reject) => {
        departure.onGone = () => reject(new Error("The caller has gone."));
      });
    },
  });
  const raw = new RawConnection(platform.port).write(
    `GET /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`,
  );
  await started;
  await platform.gateway.close(50);
  assert.match(await raw.untilClosed(), /^HTTP\/1.1 503 .*SHUTTING_DOWN/s);
});

test("a port in use is named, with what to do", async (t) => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => other.close());
  const { port } = other.address() as AddressInfo;
  const platform = await startPlatform(t);
  await platform.gateway.close(0);
  const gateway = createGateway({ settings: { domain: "", requestTimeoutMs: 1 } } as Parameters<
    typeof createGateway
  >[0]);
  await assert.rejects(gateway.listen("127.0.0.1", port), {
    code: "PORT_IN_USE",
    message: `Port ${port} on 127.0.0.1 is in use.`,
    help: /SVC_PORT/,
  });
});
