/** Functions and applications that answer in ways that no HTTP or WebSocket allows: the call fails, nothing beside it does. */
import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { before, describe, test } from "node:test";
import { WebSocket } from "ws";
import { suiteContext } from "../suite-context.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const SOURCE = `
import asyncio
from svc import Endpoint, Response, WebSocket

api = Endpoint(name="wrong", workers=(0, 1), max_concurrency=20, idle_timeout=600)
AWAITED = asyncio.Event()

@api.get("/held")
async def held():
    await AWAITED.wait()
    return "answered"

@api.get("/let-go")
async def let_go(): AWAITED.set()

@api.get("/says/{what}")
async def says(what: str):
    if what == "text": return Response("x", status="200")
    if what == "none": return Response("x", status=None)
    if what == "kind": return Response("x", media_type=5)
    if what == "long": return Response("x", headers={"x-long": "y" * 100_000})
    if what.startswith("length"): return Response("x" * int(what[6:]), headers={"Content-Length": "2000000"})

@api.websocket("/talks/{what}")
async def talks(socket: WebSocket, what: str):
    if what == "protocol": await socket.accept(5)
    if what == "long": await socket.accept("y" * 100_000)
    await socket.send("here")
    if what == "seen": await socket.close(1006)
    if what == "reason": await socket.close(4000, "ü" * 100)
    if what == "surrogate": await socket.close(4000, "\\ud800")

@api.asgi
def app(): return answer

async def answer(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            event = await receive()
            await send({"type": event["type"] + ".complete"})
            if event["type"] == "lifespan.shutdown": return
    what = scope["path"].rpartition("/")[2]
    start = {"type": "http.response.start", "status": 200, "headers": []}
    body = {"type": "http.response.body", "body": b"x"}
    refuse = {"type": "websocket.http.response.start", "status": 401, "headers": []}
    if what == "text": await send({**start, "status": "200"}); await send(body)
    if what == "long": await send({**start, "headers": [(b"x-long", b"y" * 100_000)]}); await send(body)
    if what == "cancelled": raise asyncio.CancelledError()
    if what == "at-once":
        await send(start)
        await asyncio.gather(*[send({**body, "body": bytes([n]) * 100_000, "more_body": True}) for n in range(20)])
        await send(body)
    if what == "refuse-switch": await send({**refuse, "status": 101}); await send({"type": "websocket.http.response.body", "body": b"x"})
    if what == "refuse-text": await send({**refuse, "status": "401"}); await send({"type": "websocket.http.response.body", "body": b"x"})
    if what == "refuse-line": await send({**refuse, "headers": [(b"a", b"b\\nc: d")]}); await send({"type": "websocket.http.response.body", "body": b"x"})
    if what == "refuse-much": await send(refuse); await send({"type": "websocket.http.response.body", "body": bytes(70_000_000)})
    if what == "accept-text": await send({"type": "websocket.accept", "headers": [(b"x-long", b"y" * 100_000)]})
    if what == "refuse-early":
        await send({"type": "websocket.close", "code": 4003})
        while (await receive())["type"] != "websocket.disconnect": pass
    if what == "close-never": await send({"type": "websocket.accept"}); await send({"type": "websocket.close", "code": 5})
`;

describe("an answer that cannot be sent", () => {
  const t = suiteContext();
  let platform: TestPlatform;
  let url = "";
  let held: Promise<{ status: number; json: unknown; headers: Headers }>;

  before(async () => {
    platform = await startPlatform(t);
    const deploy = await platform.svc(["deploy"], { cwd: project(t, { "w.py": SOURCE }) });
    assert.equal(deploy.code, 0, deploy.stderr);
    url = (await platform.endpoints())[0]!.url;
    held = platform.call(`${url}/held`);
  });

  /** What a WebSocket gets: how it was closed, or the status of its refusal. */
  async function talk(target: string): Promise<[code: number, reason: string]> {
    const headers = { authorization: `Bearer ${platform.key}` };
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/${target}`, { headers });
    socket.on("error", () => {}); // the client's own complaint; it closes with 1006 then
    return new Promise((resolve) => {
      socket.on("unexpected-response", (_, response: IncomingMessage) => {
        resolve([response.statusCode!, "refused"]);
        response.resume();
        socket.terminate();
      });
      socket.on("close", (code, reason) => resolve([code, String(reason)]));
    });
  }

  for (const what of ["text", "none", "long"]) {
    test(`is the fault of its function: ${what}`, async () => {
      const { status, json } = await platform.call(`${url}/says/${what}`);
      assert.deepEqual([status, json.title], [500, "Internal error"]);
    });
  }

  test("a kind of content that is no text is written as one", async () => {
    const { status, headers } = await platform.call(`${url}/says/kind`);
    assert.deepEqual([status, headers.get("content-type")], [200, "5"]);
  });

  for (const length of [5, 2_000_000, 3_000_000]) {
    test(`a body that is known has its own length, whatever the function says of it: ${length}`, async () => {
      const { status, text } = await platform.call(`${url}/says/length${length}`);
      assert.deepEqual([status, text.length], [200, length]);
    });
  }

  for (const what of ["text", "long", "cancelled"]) {
    test(`is the fault of its application: ${what}`, async () => {
      const { status, json } = await platform.call(`${url}/${what}`);
      assert.deepEqual([status, json.title], [500, "Internal error"]);
    });
  }

  test("parts that an application sends at the same time arrive one after the other, each whole", async () => {
    const { status, text } = await platform.call(`${url}/at-once`);
    assert.equal(status, 200);
    assert.match(text, /^(?:([\0-\x13])\1{99999}){20}x$/);
  });

  for (const [target, expected] of [
    ["talks/protocol", [1006, ""]],
    ["talks/long", [500, "refused"]],
    ["talks/seen", [1011, "the function failed"]],
    ["talks/reason", [4000, "ü".repeat(61)]],
    ["talks/surrogate", [4000, "?"]],
    ["refuse-switch", [502, "refused"]],
    ["refuse-text", [500, "refused"]],
    ["refuse-line", [502, "refused"]],
    ["refuse-much", [500, "refused"]],
    ["refuse-early", [403, "refused"]],
    ["accept-text", [500, "refused"]],
    ["close-never", [1011, "the function failed"]],
  ] as const) {
    test(`a WebSocket gets an end of its own: ${target}`, async () => {
      assert.deepEqual(await talk(target), expected);
    });
  }

  test("what is long or no number is named in the log", async () => {
    const { stdout } = await platform.svc(["logs", "wrong"]);
    assert.match(stdout, /TypeError: the status of an answer is a whole number, not '200'/);
    assert.match(stdout, /ValueError: the headers of an answer take 100\d+ bytes, over the limit of 65535/);
    assert.match(stdout, /ValueError: a WebSocket is closed with 1000 to 1003, 1007 to 1014 or 3000 to 4999, not 1006/);
  });

  test("a request that the worker had all the time is answered", async () => {
    await platform.call(`${url}/let-go`);
    const { status, json } = await held;
    assert.deepEqual([status, json], [200, "answered"]);
  });
});
