/** A preview's local port in front of a platform that says what it got. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { type TestContext, test } from "node:test";
import { WebSocket, WebSocketServer } from "ws";
import type { Admission } from "../../../src/cli/preview/front.ts";
import { Front } from "../../../src/cli/preview/front.ts";
import { freePort } from "../../free-port.ts";

const LOCAL: Admission = { host: "localhost", subnet: undefined, cors: "" };

interface Behind {
  readonly server: Server;
  readonly url: string;
}

async function platform(t: TestContext, listener: RequestListener): Promise<Behind> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Says which request arrived. */
const echo: RequestListener = async (req, res) => {
  let body = "";
  for await (const chunk of req) body += chunk;
  res.setHeader("x-from", "the platform");
  res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body }));
};

async function open(t: TestContext, target: string | undefined, admission = LOCAL): Promise<number> {
  const front = new Front();
  t.after(() => front.close());
  const port = await freePort();
  assert.equal(await front.listen(port, [{ address: "127.0.0.1", admission }]), true);
  if (target !== undefined) front.connect({ url: target, apiKey: "sk_preview" });
  return port;
}

/** As fetch, but with a Host header of the caller's choice. */
async function call(port: number, path: string, headers: Record<string, string> = {}) {
  const outgoing = request({ host: "127.0.0.1", port, path, headers }).end();
  const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of answer) text += chunk;
  return { status: answer.statusCode, text };
}

test("A call reaches the endpoint below its URL with the preview's key; method, query, headers and body stay", async (t) => {
  const { url } = await platform(t, echo);
  const port = await open(t, `${url}/lb/abc123`);
  const answer = await fetch(`http://localhost:${port}/items/7?deep=1`, {
    method: "PUT",
    headers: { "x-own": "yes", authorization: "Bearer of-the-caller" },
    body: "hello",
  });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("x-from"), "the platform");
  const got = (await answer.json()) as { method: string; url: string; headers: Record<string, string>; body: string };
  const { method, url: path, headers, body } = got;
  assert.deepEqual([method, path, body], ["PUT", "/lb/abc123/items/7?deep=1", "hello"]);
  assert.equal(headers["x-own"], "yes");
  assert.equal(headers.authorization, "Bearer sk_preview");
});

test("The path of a deployed endpoint works too, so a client needs no other base URL than the port", async (t) => {
  const { url } = await platform(t, echo);
  const port = await open(t, `${url}/v2/abc123`);
  for (const path of ["/runsync", "/v2/abc123/runsync"]) {
    const answer = (await (await fetch(`http://localhost:${port}${path}`)).json()) as { url: string };
    assert.equal(answer.url, "/v2/abc123/runsync");
  }
});

test("Bodies stream both ways: each side sees a chunk before the next is sent", async (t) => {
  const { url } = await platform(t, (req, res) => {
    req.on("data", (chunk: Buffer) => res.write(`got ${chunk}`));
    req.on("end", () => res.end("end"));
  });
  const port = await open(t, url);
  const outgoing = request({ host: "127.0.0.1", port, method: "POST" });
  outgoing.write("one");
  const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
  answer.setEncoding("utf8");
  assert.equal((await once(answer, "data"))[0], "got one");
  outgoing.write("two");
  assert.equal((await once(answer, "data"))[0], "got two");
  outgoing.end();
  assert.equal((await once(answer, "data"))[0], "end");
});

test("A caller that leaves is gone for the platform too", async (t) => {
  const arrived = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const { url } = await platform(t, (_req, res) => {
    res.once("close", left.resolve);
    arrived.resolve();
  });
  const port = await open(t, url);
  const outgoing = request({ host: "127.0.0.1", port }).on("error", () => {});
  outgoing.end();
  await arrived.promise;
  outgoing.destroy();
  await left.promise;
});

test("WebSockets pass through, and a refused one gets its answer", async (t) => {
  const behind = await platform(t, (_req, res) => res.writeHead(418).end("no"));
  const sockets = new WebSocketServer({ noServer: true });
  behind.server.on("upgrade", (req, socket, head) => {
    assert.equal(req.headers.authorization, "Bearer sk_preview");
    if (req.url !== "/lb/x/ws") socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone");
    else sockets.handleUpgrade(req, socket, head, (one) => one.on("message", (data) => one.send(`back ${data}`)));
  });
  const port = await open(t, `${behind.url}/lb/x`);
  const socket = new WebSocket(`ws://localhost:${port}/ws`);
  await once(socket, "open");
  socket.send("hello");
  assert.equal(String((await once(socket, "message"))[0]), "back hello");
  socket.close();
  await once(socket, "close");

  const refused = new WebSocket(`ws://localhost:${port}/other`);
  refused.on("error", () => {});
  const [, answer] = (await once(refused, "unexpected-response")) as [unknown, IncomingMessage];
  assert.equal(answer.statusCode, 404);
  answer.resume();
});

test("A WebSocket behind a call that waits closes the connection, and others go on", async (t) => {
  const { url } = await platform(t, (req, res) => {
    if (!req.url?.endsWith("/waits")) res.end("here");
  });
  const port = await open(t, url);
  const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: localhost:${port}\r\n${more}\r\n`;
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  socket.resume().write(get("/waits") + get("/ws", "connection: upgrade\r\nupgrade: websocket\r\n"));
  await once(socket, "close");
  assert.equal((await call(port, "/")).text, "here");
});

test("An answer that comes before the whole body was sent is passed on", async (t) => {
  const { url } = await platform(t, (req, res) => {
    req.resume(); // As the platform does, so that the answer is not lost with the connection.
    res.writeHead(413).end("too large");
  });
  const port = await open(t, url);
  const outgoing = request({ host: "127.0.0.1", port, method: "POST", headers: { "content-length": 50_000_000 } });
  outgoing.on("error", () => {});
  outgoing.write(Buffer.alloc(1_000_000));
  const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
  assert.equal(answer.statusCode, 413);
  outgoing.destroy();
});

test("Closing the port cuts off everything, WebSockets and waiting calls too", async (t) => {
  const arrived = Promise.withResolvers<void>();
  const behind = await platform(t, () => arrived.resolve());
  const sockets = new WebSocketServer({ noServer: true });
  behind.server.on("upgrade", (req, socket, head) => sockets.handleUpgrade(req, socket, head, () => {}));
  const front = new Front();
  const port = await freePort();
  await front.listen(port, [{ address: "127.0.0.1", admission: LOCAL }]);
  front.connect({ url: behind.url, apiKey: "sk_preview" });
  const socket = new WebSocket(`ws://localhost:${port}/ws`);
  await once(socket, "open");
  const waiting = once(request({ host: "127.0.0.1", port }).end(), "error");
  await arrived.promise;
  await front.close();
  await Promise.all([waiting, once(socket, "close")]);
});

test("No page of another site and no other name gets in: the port asks for no key", async (t) => {
  const { url } = await platform(t, echo);
  const port = await open(t, url);
  const allowed: Record<string, string>[] = [
    {},
    { host: `localhost:${port}` },
    { host: `localhost:${port}`, origin: `http://localhost:${port}` },
    { "sec-fetch-site": "none" },
  ];
  for (const headers of allowed) assert.equal((await call(port, "/", headers)).status, 200, JSON.stringify(headers));
  const refused: Record<string, string>[] = [
    { host: "evil.example" },
    { host: "evil.example:80", origin: "http://evil.example:80" },
    { origin: "https://evil.example" },
    { origin: "http://localhost:3000" },
    { origin: "null" },
    { "sec-fetch-site": "cross-site" },
  ];
  for (const headers of refused) {
    const { status, text } = await call(port, "/", headers);
    assert.equal(status, 403, JSON.stringify(headers));
    assert.equal((JSON.parse(text) as { code: string }).code, "FORBIDDEN");
  }
});

test("A page whose origin the endpoint names in cors may call", async (t) => {
  const { url } = await platform(t, echo);
  const port = await open(t, url, { ...LOCAL, cors: "https://shop.example" });
  assert.equal((await call(port, "/", { origin: "https://shop.example" })).status, 200);
  assert.equal((await call(port, "/", { origin: "https://evil.example" })).status, 403);
});

test("In the preview's network only its own containers are answered, by the endpoint's name", async (t) => {
  const { url } = await platform(t, echo);
  const inside = await open(t, url, { host: "api", subnet: "127.0.0.0/8", cors: "" });
  assert.equal((await call(inside, "/", { host: `api:${inside}` })).status, 200);
  assert.equal((await call(inside, "/", { host: `other:${inside}` })).status, 403);
  const outside = await open(t, url, { host: "api", subnet: "172.30.0.0/16", cors: "" });
  assert.match((await call(outside, "/", { host: "api" })).text, /Only containers of this preview/);
});

test("Before the endpoint is there, and after its platform has gone, the answer says so", async (t) => {
  const early = await open(t, undefined);
  const answer = await call(early, "/");
  assert.equal(answer.status, 503);
  assert.match(answer.text, /still starting/);
  const late = await open(t, `http://127.0.0.1:${await freePort()}`);
  assert.deepEqual((JSON.parse((await call(late, "/")).text) as { code: string }).code, "PLATFORM_UNREACHABLE");
});

test("A port that is taken at one address is used at none", async (t) => {
  const { url } = await platform(t, echo);
  const port = Number(new URL(url).port);
  const front = new Front();
  t.after(() => front.close());
  const places = ["127.0.0.2", "127.0.0.1"].map((address) => ({ address, admission: LOCAL }));
  assert.equal(await front.listen(port, places), false);
  const free = createServer();
  await new Promise<void>((resolve) => free.listen(port, "127.0.0.2", resolve));
  free.close();
});
