/** `svc run` holds the developer's key: a path must not leave the endpoint it was called at. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startSvcRun } from "../dev/svc-run.ts";
import { project, startPlatform } from "../e2e/platform.ts";
import { rawCall } from "./raw-http.ts";

const FILES = {
  "main.py": `from svc import Endpoint, WebSocket

api = Endpoint(name="api", workers=(0, 1))

@api.get("/items/{name:path}")
def items(name: str):
    return {"name": name}

@api.post("/items/{name:path}")
def store(name: str):
    return {"stored": name}

@api.websocket("/talk")
async def talk(socket: WebSocket):
    async for message in socket:
        await socket.send(message)
`,
  "job.py": `from svc import Endpoint

@Endpoint(name="job", workers=(0, 1))
def job() -> int:
    return 1
`,
};
const GRAPHQL = 'mutation { createKey(input: { name: "stolen", scopes: ["admin"] }) { secret } }';
const UP = ["..", "%2e%2e", "%2E%2e", ".%2e", "%2e.", "..%2f..", "..%5c.."];

test("no path of svc run leaves the endpoint that it was called at", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  const server = await startSvcRun(t, platform, project(t, FILES, "shop"));
  const url = server.url.replace("localhost", "127.0.0.1");
  const body = JSON.stringify({ query: GRAPHQL });
  const keys = async () =>
    (await platform.query<{ myself: { keys: unknown[] } }>("{ myself { keys { id } } }")).myself.keys.length;
  const before = await keys();
  assert.match((await rawCall(url, { path: "/main/items/a%20b" })).text, /a b/, "the endpoint itself answers");

  const steps = [...UP.map((up) => `${up}/${up}/${up}/${up}`), "..\\..\\..\\.."];
  const paths = steps.flatMap((up) => [
    `/main/items/${up}/graphql`,
    `/main/${up}/graphql`,
    `/main/x/${up}/graphql?x=/y`,
    `/job/status/${up}/graphql`,
  ]);
  for (const path of [
    ...paths,
    `${platform.url}/graphql`,
    `${url}/main/items/../../../graphql`,
    "//graphql",
    "/main\\..\\graphql",
  ]) {
    const { status, text } = await rawCall(url, { method: "POST", path, body });
    assert.ok(status >= 400 && status < 500, `${path}: ${text}`);
    assert.doesNotMatch(text, /"data"|svc_/, path);
    const got = await rawCall(url, { path });
    assert.ok(got.status >= 400 && got.status < 500, `GET ${path}: ${got.text}`);
  }
  for (const up of steps) {
    const path = `/main/${up}/main/talk`;
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    };
    const { status, text } = await rawCall(url, { path, headers });
    assert.ok(status >= 400 && status < 500, `upgrade ${path}: ${text}`);
  }
  assert.equal(await keys(), before, "nobody made a key");
});
