import assert from "node:assert/strict";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { pythonEnvironment } from "../../bench/processes.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

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
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse
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

    @app.get("/model")
    def model():
        return ready

    @app.post("/items/{item_id}")
    async def item(item_id: int, item: Item, q: str = "none"):
        return {"item_id": item_id, "item": item, "q": q}

    @app.get("/stream")
    def stream():
        return StreamingResponse((f"data: {n}\\n\\n" for n in range(3)), media_type="text/event-stream")

    return app
`;

test("a FastAPI application runs unchanged, with its lifespan, its documents and its streams", async (t) => {
  if ((await fastapi(t)) === undefined) return;
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "app.py": APPLICATION }) });
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
});
