import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { type TestContext, test } from "node:test";
import { createServer } from "../../src/lib/http.ts";

interface Asked {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

/** A server that ends the connection with its answer to /last, once it has the body; the others are left to the test. */
async function server(t: TestContext) {
  const asked = new Map<string, Asked>();
  const upgraded: string[] = [];
  const errors: string[] = [];
  const http = createServer(
    {},
    {
      onRequest: (req, res) => {
        asked.set(req.url!, { req, res });
        if (req.url !== "/last") return;
        res.writeHead(400, { connection: "close", "content-length": 2 }).write("no");
        req.resume().once("end", () => res.end());
      },
      onUpgrade: (req, socket) => {
        upgraded.push(req.url!);
        socket.destroy();
      },
      onAnswerError: ({ message }) => errors.push(message),
    },
  );
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(() => http.close());
  const { port } = http.address() as AddressInfo;
  return { asked, upgraded, errors, send: (...requests: string[]) => exchange(port, requests.join("")) };
}

/** All that came until the connection was closed. */
async function exchange(port: number, text: string): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk)).on("error", () => {});
  socket.on("end", () => socket.end());
  socket.write(text);
  await once(socket, "close");
  return Buffer.concat(chunks).toString("latin1");
}

const post = (path: string) => `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}`;
const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${headers}\r\n`;
const UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\n";

test("a request behind the connection's last answer is not run, also with others that wait their turn, and the process goes on", async (t) => {
  const { asked, send } = await server(t);
  // A body keeps node:http busy for long enough: the first answer is over, the second waits, the third has not been read.
  const text = await send(post("/last"), post("/waits"), post("/behind"));
  assert.match(text, /^HTTP\/1\.1 400 .*no$/s);
  assert.ok(asked.get("/waits")!.res.destroyed);
  assert.ok(!asked.has("/behind"));
});

test("an answer that is cut before its turn cuts the connection behind the answers before it", async (t) => {
  const { asked, send } = await server(t);
  const answered = send(get("/first"), get("/cut"), get("/third"));
  while (!asked.has("/third")) await new Promise(setImmediate);
  asked.get("/cut")!.res.write("half");
  asked.get("/cut")!.res.destroy();
  asked.get("/third")!.res.end("third");
  asked.get("/first")!.res.end("first");
  const text = await answered;
  assert.match(text, /first/);
  assert.doesNotMatch(text, /half|third/);
});

for (const [title, request] of [
  ["CONNECT", "CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n"],
  ["an upgrade", get("/talk", UPGRADE)],
] as const) {
  test(`${title} behind requests that wait closes the connection, and each of them hears of it`, async (t) => {
    const { asked, upgraded, send } = await server(t);
    assert.equal(await send(get("/1"), get("/2"), get("/3"), request), "");
    assert.deepEqual(
      ["/1", "/2", "/3"].map((path) => asked.get(path)!.res.closed),
      [true, true, true],
    );
    assert.deepEqual(upgraded, []);
  });
}

test("an upgrade behind the connection's last answer is not run", async (t) => {
  const { upgraded, send } = await server(t);
  await send(post("/last"), post("/waits"), get("/talk", UPGRADE));
  assert.deepEqual(upgraded, []);
});

test("who writes behind an answer's end cuts that connection alone", async (t) => {
  const { asked, errors, send } = await server(t);
  const answered = send(get("/one"));
  while (!asked.has("/one")) await new Promise(setImmediate);
  const { res } = asked.get("/one")!;
  res.end("one");
  res.write("more");
  assert.match(await answered, /^HTTP\/1\.1 200 |^$/);
  assert.deepEqual(errors, ["write after end"]);
});
