import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { test } from "node:test";
import { framingOf, passedHeaders, sendBack, Upstream } from "../../src/lib/proxy.ts";

test("What belongs to a connection, and what its Connection header names, does not go along", () => {
  const raw = ["Host", "a", "Connection", "close, X-Hop", "X-Hop", "1", "TE", "trailers", "X-Kept", "2", "X-KEPT", "3"];
  assert.deepEqual(passedHeaders(raw), ["Host", "a", "X-Kept", "2", "X-KEPT", "3"]);
  assert.deepEqual(passedHeaders(raw, new Set(["host"])), ["X-Kept", "2", "X-KEPT", "3"]);
});

async function listening(server: Server): Promise<URL> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

test("A body arrives as it was sent, whatever the method", async (t) => {
  const behind = createServer(async (req, res) => {
    const body = await text(req);
    res.end(JSON.stringify({ body, chunked: req.headers["transfer-encoding"], length: req.headers["content-length"] }));
  });
  const upstream = new Upstream();
  const to = await listening(behind);
  const front = createServer(async (req, res) => {
    const headers = [...passedHeaders(req.rawHeaders), ...framingOf(req)];
    const outgoing = upstream.open({ to, method: req.method!, path: req.url!, headers });
    const [[answer]] = await Promise.all([once(outgoing, "response"), pipeline(req, outgoing)]);
    await sendBack(answer as IncomingMessage, res);
  });
  const { port } = await listening(front);
  t.after(() => {
    upstream.close();
    front.close();
    behind.close();
  });
  for (const [method, headers, body, expected] of [
    ["GET", {}, "", { body: "" }],
    ["GET", { "transfer-encoding": "chunked" }, "in a GET", { body: "in a GET", chunked: "chunked" }],
    ["POST", { "content-length": 3 }, "abc", { body: "abc", length: "3" }],
    ["DELETE", {}, "", { body: "", length: "0" }],
  ] as const) {
    const call = request({ host: "127.0.0.1", port, method, headers, agent: false }).end(body);
    const [answer] = (await once(call, "response")) as [IncomingMessage];
    assert.deepEqual(JSON.parse(await text(answer)), expected, method);
  }
});

test("An answer for a caller who is gone before it comes is given up, and its connection with it", async (t) => {
  const behind = createServer((_, res) => void res.write("a beginning"));
  const upstream = new Upstream();
  const to = await listening(behind);
  const front = createServer();
  const { port } = await listening(front);
  t.after(() => {
    upstream.close();
    front.close();
    behind.close().closeAllConnections();
  });
  const caller = request({ host: "127.0.0.1", port, agent: false })
    .on("error", () => {})
    .end();
  const [, res] = (await once(front, "request")) as [IncomingMessage, ServerResponse];
  caller.destroy();
  await once(res, "close");
  const [answer] = (await once(
    upstream.open({ to, method: "GET", path: "/", headers: ["Host", "x"] }).end(),
    "response",
  )) as [IncomingMessage];
  await assert.rejects(sendBack(answer, res));
  assert.equal(answer.socket.destroyed, true);
});
