import assert from "node:assert/strict";
import { once } from "node:events";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { WebSocket } from "ws";
import { pythonEnvironment } from "../../bench/processes.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { hasLogged, project, ROOT, startPlatform } from "./platform.ts";

/** A kept Python environment with FastAPI; undefined (and the test skipped) where the package index is out of reach. */
async function fastapi(t: TestContext): Promise<string | undefined> {
  try {
    return await pythonEnvironment("fastapi", ["fastapi", "uvicorn[standard]", "python-multipart"]);
  } catch {
    t.skip("FastAPI is not installed here and the package index cannot be reached");
    return undefined;
  }
}

test("arguments are converted and refused as FastAPI does it, but for the documented differences", async (t) => {
  const bin = await fastapi(t);
  if (bin === undefined) return;
  const script = path.join(import.meta.dirname, "load-balanced/against_fastapi.py");
  const env = { PATH: process.env.PATH, PYTHONPATH: path.join(ROOT, "python/src") };
  const { code, stdout, stderr } = await runProcess(path.join(bin, "python"), [script], { env });
  assert.equal(code, 0, stderr);
  const { compared, differences } = JSON.parse(stdout);
  assert.ok(compared > 700, `${compared} requests`);
  assert.deepEqual(differences, []);
});

const APPLICATION = `
from svc import Endpoint

api = Endpoint(name="api", dependencies=["fastapi"], workers=(0, 1), max_concurrency=10)

@api.asgi
def app():
    from contextlib import asynccontextmanager
    import asyncio
    import tempfile
    from fastapi import BackgroundTasks, FastAPI, Request, WebSocket, WebSocketDisconnect
    from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
    from pydantic import BaseModel

    ready = {}

    @asynccontextmanager
    async def lifespan(app):
        ready["model"] = "loaded"
        yield

    app = FastAPI(lifespan=lifespan, title="Mounted")

    class Item(BaseModel):
        name: str
        price: float

    @app.websocket("/rooms/{room}")
    async def chat(socket: WebSocket, room: str, times: int = 1):
        if room == "closed":
            await socket.close()
            return
        if room == "paid":
            await socket.send_denial_response(JSONResponse({"detail": "pay first"}, status_code=402))
            return
        await socket.accept(subprotocol="chat.v1" if "chat.v1" in socket.scope["subprotocols"] else None,
                            headers=[(b"x-room", room.encode())])
        if room == "broken":
            raise ValueError("no such thing")
        if room == "clock":
            try:
                while True:
                    await socket.send_json({"tick": 1})
                    await asyncio.sleep(0.01)
            except WebSocketDisconnect as gone:
                ready["clock"] = gone.code
            return
        try:
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    ready["left"] = message["code"]
                    return
                for _ in range(times):
                    if message.get("text") is not None:
                        await socket.send_text(f"{room}: {message['text']}")
                    else:
                        await socket.send_bytes(message["bytes"])
        finally:
            ready["model_seen"] = ready["model"]

    @app.get("/model")
    def model():
        return ready

    @app.post("/items/{item_id}")
    async def item(item_id: int, item: Item, q: str = "none"):
        return {"item_id": item_id, "item": item, "q": q}

    @app.get("/stream")
    def stream():
        return StreamingResponse((f"data: {n}\\n\\n" for n in range(3)), media_type="text/event-stream")

    @app.get("/background")
    def background(tasks: BackgroundTasks):
        tasks.add_task(int, "fails in the background")
        return "answered"

    @app.get("/caller")
    def caller(request: Request):
        return request.client.host

    @app.get("/file")
    def file():
        with tempfile.NamedTemporaryFile(delete=False) as written:
            written.write(b"ab" * 500_000)
        return FileResponse(written.name)

    @app.get("/many")
    async def many():
        return list(range(500_000))

    return app
`;

test("a FastAPI application runs unchanged, with its lifespan, its documents and its streams", async (t) => {
  if ((await fastapi(t)) === undefined) return;
  const platform = await startPlatform(t);
  const cwd = project(t, { "app.py": APPLICATION });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  const [endpoint] = await platform.endpoints();
  const url = endpoint!.url;
  assert.deepEqual((await platform.call(`${url}/model`)).json, { model: "loaded" });
  const item = await platform.call(`${url}/items/7?q=x`, { body: { name: "pen", price: "1.5" } });
  assert.deepEqual(item.json, { item_id: 7, item: { name: "pen", price: 1.5 }, q: "x" });
  assert.equal((await platform.call(`${url}/items/x`, { body: {} })).status, 422);
  const stream = await platform.call(`${url}/stream`);
  assert.equal(stream.text, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  assert.match(stream.headers.get("content-type")!, /^text\/event-stream/);
  const documents = await platform.call(`${url}/openapi.json`);
  assert.equal(documents.json.info.title, "Mounted");
  assert.deepEqual(documents.json.servers, [{ url: new URL(url).pathname }]);
  assert.equal((await platform.call(`${url}/missing`)).status, 404);
  assert.equal((await platform.call(`${url}/caller`)).json, "127.0.0.1");
  assert.equal((await platform.call(`${url}/background`)).json, "answered");
  await hasLogged(platform, cwd, ["api"], /ValueError: invalid literal .* 'fails in the background'/);
  const file = await platform.call(`${url}/file`);
  assert.equal(file.headers.get("content-length"), "1000000");
  assert.ok(file.text === "ab".repeat(500_000), `${file.text.length} bytes`);
  assert.equal((await platform.call(`${url}/many`)).json.length, 500_000);
});

test("its WebSocket routes talk, refuse, fail and hear of the end as they do on its own server", {
  timeout: 300_000,
}, async (t) => {
  if ((await fastapi(t)) === undefined) return;
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "app.py": APPLICATION }) });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  const [endpoint] = await platform.endpoints();
  const url = endpoint!.url;
  const dial = (target: string, protocols: string[] = []) =>
    new WebSocket(`${url.replace("http", "ws")}${target}`, protocols, {
      headers: { authorization: `Bearer ${platform.key}` },
    });
  const model = async () => (await platform.call(`${url}/model`)).json;

  const chat = dial("/rooms/blue?times=2", ["other", "chat.v1"]);
  const [[upgraded]] = await Promise.all([once(chat, "upgrade"), once(chat, "open")]);
  assert.equal(upgraded.headers["x-room"], "blue");
  assert.equal(chat.protocol, "chat.v1");
  const heard: (string | Buffer)[] = [];
  const whole = Promise.withResolvers<void>();
  chat.on("message", (data: Buffer, isBinary) => {
    heard.push(isBinary ? data : data.toString());
    if (heard.length === 4) whole.resolve();
  });
  const large = Buffer.alloc(1_000_000, 7);
  chat.send("hällo");
  chat.send(large);
  await whole.promise;
  assert.deepEqual(heard.slice(0, 2), ["blue: hällo", "blue: hällo"]);
  assert.ok((heard[2] as Buffer).equals(large) && (heard[3] as Buffer).equals(large));
  const ponged = once(chat, "pong");
  chat.ping();
  await ponged;
  chat.close(4001, "bye");
  assert.equal((await once(chat, "close"))[0], 4001);
  await eventually(async () => assert.equal((await model()).left, 4001));

  for (const [target, status, body] of [
    ["/rooms/closed", 403, /refused/],
    ["/rooms/paid", 402, /pay first/],
    ["/nowhere", 403, /refused/],
  ] as const) {
    const [, answer] = await once(dial(target), "unexpected-response");
    assert.equal(answer.statusCode, status, target);
    assert.match(await text(answer), body);
  }
  const broken = dial("/rooms/broken");
  assert.equal((await once(broken, "close"))[0], 1011);

  // An application that only sends answers pings and hears that its caller has gone.
  const clock = dial("/rooms/clock");
  await once(clock, "message");
  clock.ping();
  await once(clock, "pong");
  clock.close(1000);
  await once(clock, "close");
  const cut = dial("/rooms/blue");
  await once(cut, "open");
  cut.terminate();
  await eventually(async () => {
    const seen = await model();
    assert.deepEqual([seen.left, seen.clock, seen.model_seen], [1006, 1006, "loaded"]);
  });
});
