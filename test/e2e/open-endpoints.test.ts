/** Calls without a key: routes that are open to everybody, and what stays closed beside them. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, type TestContext, test } from "node:test";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const CODE = `from svc import Endpoint, Response, WebSocket

shop = Endpoint(name="shop", workers=(0, 1), max_concurrency=20)

@shop.get("/open", public=True)
def open_route(headers: dict = None) -> str:
    return "everybody"

@shop.get("/items/{item}", public=True)
def item(item: str) -> str:
    return f"item {item}"

@shop.get("/items/secret")
def secret() -> str:
    return "closed secret"

@shop.get("/files/private/{name}")
def private(name: str) -> str:
    return "closed private"

@shop.get("/files/{rest:path}", public=True)
def files(rest: str) -> str:
    return f"file {rest}"

@shop.post("/open")
def closed_post() -> str:
    return "closed post"

@shop.get("/admin")
def admin() -> str:
    return "closed admin"

@shop.websocket("/live", public=True)
async def live(socket: WebSocket):
    async for message in socket:
        await socket.send(message)

@shop.websocket("/closed-live")
async def closed_live(socket: WebSocket):
    await socket.send("closed live")

whole = Endpoint(name="whole", public=True, workers=(0, 1), max_concurrency=20)

@whole.asgi
def app():
    async def serve(scope, receive, send):
        if scope["type"] == "lifespan":
            return
        names = dict(scope["headers"])
        body = names.get(b"authorization", b"none") + b" " + names.get(b"x-svc-tagged", b"plain") + b" " + scope["path"][-2:].encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
    return serve

@Endpoint(name="job", workers=(0, 1))
def job() -> str:
    return "closed job"
`;

interface Started {
  readonly platform: TestPlatform;
  readonly cwd: string;
  readonly url: Record<string, string>;
  readonly plan: string;
  readonly built: string;
}

async function start(t: TestContext): Promise<Started> {
  const platform = await startPlatform(t, { SVC_PUBLIC_RATE_LIMIT: "400", SVC_TRUSTED_PROXIES: "127.0.0.1" });
  const cwd = project(t, { "shop.py": CODE });
  const built = await platform.svc(["build"], { cwd });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const url = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  return { platform, cwd, url, plan: deployed.stderr + deployed.stdout, built: built.stdout };
}

/** One request of which every byte is the test's; resolves all that comes back. */
function raw(url: string, text: string): Promise<string> {
  const { port, hostname } = new URL(url);
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ port: Number(port), host: hostname }, () => socket.write(text, "latin1"));
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });
}

describe("routes that are open", () => {
  let on: Started;
  const cleanUps: (() => unknown)[] = [];
  before(async () => {
    on = await start({ after: (cleanUp: () => unknown) => cleanUps.unshift(cleanUp) } as unknown as TestContext);
  });
  after(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });
  const anybody = (path: string, options: { method?: string; headers?: Record<string, string>; body?: unknown } = {}) =>
    on.platform.call(path, { key: null, ...options });

  test("what is open stands in the build, the plan, the end of the deploy and the status", async () => {
    const some =
      /shop: open without a key: GET \/files\/\{rest:path\}, GET \/items\/\{item\}, GET \/open, WEBSOCKET \/live/;
    assert.match(on.built, some);
    assert.match(on.built, /whole: open without a key: everything below its URL/);
    assert.match(on.plan, /\+ create +whole +load-balanced, open without a key: everything below its URL/);
    const status = await on.platform.svc(["status"]);
    assert.match(status.stdout, some);
    const one = await on.platform.svc(["status", "whole"], { cwd: on.cwd });
    assert.match(one.stdout, /^open +open without a key: everything below its URL$/m);
    const json = JSON.parse((await on.platform.svc(["status", "--json"])).stdout);
    assert.equal(json.find(({ name }: { name: string }) => name === "whole").publicRoutes, "*");
  });

  test("everybody calls an open route, and no closed one by any spelling of its path", async () => {
    const { shop } = on.url;
    const open = [
      ["GET", "/open", "everybody"],
      ["GET", "/open?x=1", "everybody"],
      ["GET", "/op%65n", "everybody"],
      ["GET", "/items/a%20b", "item a b"],
      ["GET", "/items/Secret", "item Secret"],
      ["GET", "/files/a/b", "file a/b"],
      ["GET", "/files/../admin", "file ../admin"],
    ] as const;
    const sent = (method: string, path: string, headers = "") =>
      raw(
        shop!,
        `${method} ${new URL(shop!).pathname}${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n`,
      );
    for (const [method, path, text] of open) {
      const answer = await sent(method, path);
      assert.match(answer, /^HTTP\/1.1 200/, `${method} ${path}: ${answer}`);
      assert.ok(answer.includes(JSON.stringify(text)), answer);
    }
    assert.match(await sent("HEAD", "/open"), /^HTTP\/1.1 200/);
    const closed = [
      ["GET", "/items/secret"],
      ["GET", "/items/%73ecret"],
      ["GET", "/items%2Fsecret"],
      ["GET", "/files/private/x"],
      ["GET", "/admin"],
      ["HEAD", "/admin"],
      ["GET", "/%61dmin"],
      ["GET", "/open/../admin"],
      ["GET", "/open/"],
      ["GET", "//open"],
      ["GET", "/open%2f..%2fadmin"],
      ["GET", "/open;/admin"],
      ["GET", "/OPEN"],
      ["GET", "/"],
      ["GET", "/ping"],
      ["GET", "/openapi.json"],
      ["POST", "/open"],
      ["PUT", "/open"],
      ["OPTIONS", "/open"],
      ["GET", "/%"],
      ["GET", "/items/"],
      ["GET", "/live"],
      ["WEBSOCKET", "/live"],
    ] as const;
    for (const [method, path] of closed) {
      const answer = await sent(method, path);
      assert.match(answer, /^HTTP\/1.1 4\d\d/, `${method} ${path}: ${answer}`);
      assert.ok(!answer.includes("closed "), `${method} ${path}: ${answer}`);
      if (method !== "WEBSOCKET") assert.match(answer, /^HTTP\/1.1 401/, `${method} ${path}: ${answer}`);
    }
    for (const header of [
      "X-HTTP-Method-Override: POST\r\n",
      "X-Original-URL: /admin\r\n",
      "X-Rewrite-URL: /admin\r\n",
    ]) {
      assert.ok((await sent("GET", "/open", header)).includes("everybody"), header);
    }
    assert.match(await sent("GET", "/open", "Upgrade: h2c\r\n"), /everybody/);
  });

  test("a WebSocket opens on its open route, and on no other", async () => {
    const path = (name: string) => `${new URL(on.url.shop!).pathname}${name}`;
    const upgrade = (name: string) =>
      raw(
        on.url.shop!,
        `GET ${path(name)} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
          // A masked close frame behind the handshake ends the connection.
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x88\x80\0\0\0\0",
      );
    assert.match(await upgrade("/live"), /^HTTP\/1.1 101/);
    for (const name of ["/closed-live", "/open", "/live/", "/%6Cive/../closed-live"]) {
      assert.match(await upgrade(name), /^HTTP\/1.1 401/, name);
    }
  });

  test("a key is checked on open routes too; another Authorization is the function's, platform headers are not", async () => {
    const { shop, whole } = on.url;
    const wrong = await on.platform.call(`${shop}/open`, { key: "svc_wrong" });
    assert.deepEqual([wrong.status, wrong.json.code], [401, "WRONG_KEY"]);
    assert.equal((await on.platform.call(`${shop}/open`)).json, "everybody");
    assert.equal((await on.platform.call(`${shop}/admin`)).json, "closed admin");
    const basic = await anybody(`${whole}/a`, { headers: { authorization: "Basic dTpw", "x-svc-tagged": "1" } });
    assert.equal(basic.text, "Basic dTpw plain /a");
    const known = await on.platform.call(`${whole}/a`);
    assert.equal(known.text, "none plain /a", "the platform's key is not for the function");
    const twice = await raw(
      whole!,
      `GET ${new URL(whole!).pathname}/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Basic a\r\nAuthorization: Bearer ${on.platform.key}\r\n\r\n`,
    );
    assert.match(twice, /^HTTP\/1.1 400/);
    const closed = await anybody(`${shop}/admin`, { headers: { authorization: "Basic dTpw" } });
    assert.deepEqual([closed.status, closed.json.code], [401, "WRONG_KEY"]);
  });

  test("jobs, logs and management stay closed, and an open endpoint is not found by guessing ids", async () => {
    const id = on.url.shop!.split("/").pop()!;
    const job = on.url.job!.split("/").pop()!;
    for (const [path, method] of [
      [`/v2/${job}/run`, "POST"],
      [`/v2/${job}/health`, "GET"],
      [`/v2/${id}/health`, "GET"],
      [`/lb/${job}/open`, "GET"],
      ["/lb/none/open", "GET"],
      [`/v2/../lb/${id}/admin`, "GET"],
      ["/graphql", "POST"],
    ] as const) {
      const answer = await anybody(path, { method, ...(method === "POST" ? { body: {} } : {}) });
      assert.ok([401, 404].includes(answer.status), `${method} ${path}: ${answer.status} ${answer.text}`);
      assert.doesNotMatch(answer.text, /closed |shop/);
    }
  });

  test("one address is held back, its neighbours in an IPv6 network with it, and others are not", async () => {
    const from = (address: string) =>
      anybody(`${on.url.whole}/rate`, { headers: { "x-forwarded-for": `203.0.113.9, ${address}` } });
    let refused: Awaited<ReturnType<typeof from>> | undefined;
    // A window may end in the middle; two of them hold fewer calls than are sent.
    for (let sent = 0; refused === undefined && sent < 900; sent += 50) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) => from(`2001:db8::${(sent + i).toString(16)}`)),
      );
      refused = answers.find(({ status }) => status === 429);
    }
    assert.equal(refused?.json.code, "RATE_LIMITED");
    assert.match(refused!.headers.get("retry-after") ?? "", /^([1-9]|10)$/);
    assert.match(refused!.json.detail, /at most 400 calls without a key in 10 s from one address/);
    assert.equal((await from("2001:db8:0:1::1")).status, 200);
    assert.equal((await on.platform.call(`${on.url.whole}/rate`)).status, 200, "a key has no such limit");
  });

  test("a route is closed again by a deploy, while the endpoint lives", async (t) => {
    const cwd = project(t, { "shop.py": CODE.replace('"/open", public=True', '"/open"') });
    const deployed = await on.platform.svc(["deploy"], { cwd });
    assert.equal(deployed.code, 0, deployed.stderr);
    assert.match(deployed.stderr, /open without a key: .*GET \/open.* → GET \/files/);
    assert.equal((await anybody(`${on.url.shop}/open`)).status, 401);
    assert.equal((await anybody(`${on.url.shop}/items/a`)).status, 200);
  });
});
