/** Calls without a key: routes that are open to everybody, and what stays closed beside them. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { before, describe, type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { openBrowser, openPage } from "../browser.ts";
import { eventually } from "../eventually.ts";
import { suiteContext } from "../suite-context.ts";
import { hasLogged, project, ROOT, startPlatform, type TestPlatform } from "./platform.ts";

const CODE = `from svc import Endpoint, Response, WebSocket, context

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
    serve.routes = [type("Route", (), {"path": "/ping"})]
    return serve

links = Endpoint(name="links", workers=(0, 2), max_concurrency=20)

@links.get("/report")
def report(year: str = "", by: str = "", svc_signature: str = "none") -> dict:
    print("report was asked for", flush=True)
    return {"year": year, "by": by, "signature": svc_signature, "headers": dict(context().headers)}

@links.get("/files/{rest:path}")
def link_file(rest: str) -> str:
    return f"file {rest}"

@links.post("/upload")
def upload(name: str) -> str:
    return name

@links.get("/dot.svg")
def dot() -> Response:
    return Response('<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>', media_type="image/svg+xml")

@links.get("/events")
def events():
    yield "data: one\\n\\n"
    yield "data: two\\n\\n"

@links.get("/page")
def page() -> Response:
    return Response("<!doctype html><title>page</title>", media_type="text/html")

@links.websocket("/chat")
async def chat(socket: WebSocket):
    async for message in socket:
        await socket.send("echo " + message)

@links.get("/link")
def link() -> str:
    return links.url("/report?by=worker", expires="5m")

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
  const platform = await startPlatform(t, { SVC_PUBLIC_RATE_LIMIT: "100", SVC_TRUSTED_PROXIES: "127.0.0.1" });
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
  const context = suiteContext();
  before(async () => {
    on = await start(context);
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
    // A window may end in the middle; two of them hold fewer calls than are sent, and a loaded machine takes longer.
    for (let sent = 0; refused === undefined && sent < 2_000; sent += 50) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) => from(`2001:db8::${(sent + i).toString(16)}`)),
      );
      refused = answers.find(({ status }) => status === 429);
    }
    assert.equal(refused?.json.code, "RATE_LIMITED");
    assert.match(refused!.headers.get("retry-after") ?? "", /^([1-9]|10)$/);
    assert.match(refused!.json.detail, /at most 100 calls without a key in 10 s from one address/);
    assert.equal((await from("2001:db8:0:1::1")).status, 200);
    assert.equal((await on.platform.call(`${on.url.whole}/rate`)).status, 200, "a key has no such limit");
  });

  const signed = async (args: readonly string[], env: Record<string, string> = {}) => {
    const made = await on.platform.svc(["url", ...args], { cwd: on.cwd, env });
    assert.equal(made.code, 0, made.stderr);
    return made.stdout.trim();
  };
  const status = async (url: string, options: Parameters<typeof anybody>[1] = {}) => {
    const { status, json } = await anybody(url, options);
    return json?.code === undefined ? status : `${status} ${json.code}`;
  };
  const WRONG = "403 WRONG_SIGNATURE";

  test("an application's own /ping is answered by the runtime, which its log says", async () => {
    assert.equal((await anybody(`${on.url.whole}/ping`)).text, '{"status":"ready"}');
    await hasLogged(
      on.platform,
      on.cwd,
      ["whole"],
      /svc: \/ping is answered by the runtime, not by the application's route/,
    );
  });

  test("a signed URL makes one call without a key; its function sees nothing of the signature, and no log has it", async () => {
    const url = await signed(["links", "/report?year=2026", "--expires", "10m"]);
    const referer = `${on.url.links}/page?${new URL(url).search.slice(1)}`;
    const answer = await anybody(url, { headers: { referer, "x-svc-tagged": "1" } });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual([answer.json.year, answer.json.signature], ["2026", "none"]);
    assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
    assert.doesNotMatch(answer.text, /svc_signature|x-svc-tagged|referer/);
    assert.equal(await status(url, { method: "HEAD" }), 200);
    const token = new URL(url).searchParams.get("svc_signature")!;
    assert.equal(await status(`${url}x`), WRONG);
    await hasLogged(on.platform, on.cwd, ["links"], /report was asked for/);
    // Files come and go meanwhile, which grep complains of.
    const filesWith = async (text: string) => (await runProcess("grep", ["-rlF", text, on.platform.dataDir])).stdout;
    assert.match(await filesWith("report was asked for"), /logs/);
    assert.equal(await filesWith(token.slice(-43)), "", "nothing that the platform keeps has it");

    const below = await signed(["links", "/files/", "--prefix"]);
    const file = (name: string) => below.replace("/files/?", `/files/${name}?`);
    assert.equal((await anybody(file("a/b.txt"))).json, "file a/b.txt");
    assert.equal((await anybody(`${file("a")}&more=1`)).json, "file a");

    const byWorker = await on.platform.call(`${on.url.links}/link`);
    assert.equal((await anybody(byWorker.json)).json.by, "worker");
    const script = `from svc import Endpoint
client = Endpoint(id="${on.url.links!.split("/").pop()}", url="${on.platform.url}", api_key="${on.platform.key}")
print(client.url("/report?by=script", expires=60))
try:
    client.url("/report", expires="soon")
except ValueError as error:
    print(error)
`;
    const env = { PATH: process.env.PATH, PYTHONPATH: `${ROOT}/python/src`, PYTHONDONTWRITEBYTECODE: "1" };
    const [byScript, refused] = (await runProcess("python3", ["-c", script], { env })).stdout.split("\n");
    assert.equal((await anybody(byScript!)).json.by, "script");
    assert.match(refused!, /a time such as "10m"/);
    const post = await signed(["links", "/upload", "--method", "post", "--json"]);
    assert.ok(JSON.parse(post).expiresAt > Date.now() + 3_500_000);
    const uploaded = await anybody(JSON.parse(post).url, { method: "POST", body: { name: "pen" } });
    assert.equal(uploaded.json, "pen");
  });

  test("nothing but the signed call is made: tampered, stretched, moved, doubled, oversized and mixed URLs are refused", async () => {
    const url = await signed(["links", "/report?year=2026", "--expires", "1h"]);
    const [before, token = ""] = url.split("svc_signature=");
    const [expires, signer, method, scope, mac] = token.split(".");
    const remade = (...parts: (string | undefined)[]) => `${before}svc_signature=${parts.join(".")}`;
    const links = on.url.links!;
    const forged: Record<string, string> = {
      path: url.replace("/report", "/link"),
      "path below": url.replace("/report?", "/report/x?"),
      "encoded path": url.replace("/report", "/%72eport"),
      query: url.replace("2026", "2027"),
      "further query": `${url}&by=me`,
      "query before": url.replace("?", "?by=me&"),
      "another order": `${links}/report?svc_signature=${token}&year=2026&year=2026`,
      expiry: remade(String(Number(expires) + 1), signer, method, scope, mac),
      signer: remade(expires, "k-another", method, scope, mac),
      method: remade(expires, signer, "POST", scope, mac),
      scope: remade(expires, signer, method, "p1", mac),
      "no prefix": remade(expires, signer, method, "p0", mac),
      "short mac": remade(expires, signer, method, scope, mac!.slice(1)),
      "no mac": remade(expires, signer, method, scope, ""),
      "two signatures": `${url}&svc_signature=${token}`,
      "an empty one first": url.replace("?", "?svc_signature=&"),
      oversized: `${url}${"a".repeat(8000)}`,
      "another endpoint": url.replace(links, on.url.whole!),
    };
    for (const [what, target] of Object.entries(forged)) assert.equal(await status(target), WRONG, what);
    assert.equal(await status(url, { method: "POST", body: {} }), WRONG);
    assert.equal(await status(url, { method: "OPTIONS" }), WRONG);
    assert.equal((await on.platform.call(url)).status, 400, "a key and a signature");
    assert.equal(await status(`${links}/report?year=2026&svc%5Fsignature=${token}`), "401 MISSING_KEY");
    assert.equal(await status(`${on.url.shop}/open?svc_signature=${token}`), WRONG, "on an open route too");

    const below = await signed(["links", "/files/", "--prefix"]);
    for (const trick of [
      "../report",
      "a/../../report",
      "%2e%2e/report",
      "..%2freport",
      "a//b",
      "a%5Cb",
      "./report",
      "a%2Fb",
    ]) {
      const { pathname, search } = new URL(below);
      const text = await raw(
        below,
        `GET ${pathname}${trick}${search} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      );
      assert.match(text, /^HTTP\/1.1 403.*WRONG_SIGNATURE/s, trick);
    }
    assert.equal(await status(below.replace("/files/", "/report")), WRONG);
    const past = await signed(["links", "/report", "--expires", "1s"]);
    await eventually(async () => assert.equal(await status(past), "403 URL_EXPIRED"));
  });

  test("a signed URL ends with its key, and reaches no further than it", async () => {
    const key = async (...args: string[]) => {
      const made = JSON.parse(
        (await on.platform.svc(["key", "create", "site", "--json", ...args], { cwd: on.cwd })).stdout,
      );
      return { id: made.id, env: { PLATFORM_API_KEY: made.secret } };
    };
    const site = await key("--scopes", "read,invoke", "--endpoint", "links");
    const url = await signed(["links", "/report"], site.env);
    assert.equal(await status(url), 200);
    const readOnly = await key("--scopes", "read");
    for (const [env, endpoint, why] of [
      [site.env, on.url.whole, /reach|bound|no endpoint/],
      [readOnly.env, on.url.links, /scope "invoke"/],
    ] as const) {
      const refused = await on.platform.svc(["url", endpoint!.split("/").pop()!, "/report"], { cwd: on.cwd, env });
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, why);
    }
    assert.equal((await on.platform.svc(["key", "revoke", site.id])).code, 0);
    assert.equal(await status(url), WRONG);
  });

  test("what cannot be signed is refused with what can", async () => {
    for (const [args, code, message] of [
      [["job", "/x"], 1, /"job" is queue-based: its jobs need a key/],
      [["links", "/x", "--expires", "8d"], 1, /from 1 to 604800/],
      [["links", "/x", "--expires", "soon"], 2, /a time like/],
      [["links", "/x", "--method", "TRACE"], 2, /one of GET, POST/],
      [["links", "//evil.example/x"], 1, /below the endpoint's URL/],
      [["links", "/files", "--prefix"], 1, /ends with a slash/],
      [["links", "/a?svc_signature=x"], 1, /signed already/],
    ] as const) {
      const refused = await on.platform.svc(["url", ...args], { cwd: on.cwd });
      assert.match(refused.stderr, message, args.join(" "));
      assert.equal(refused.code, code, args.join(" "));
    }
  });

  test("a browser shows an image, follows an event stream and opens a WebSocket by signed URLs", async (t) => {
    const browser = await openBrowser(t);
    if (browser === undefined) return;
    const { page, problems } = await openPage(browser, new URL(on.url.links!).origin);
    const urls = await Promise.all([
      signed(["links", "/page"]),
      signed(["links", "/dot.svg"]),
      signed(["links", "/events"]),
      signed(["links", "/chat", "--method", "WEBSOCKET"]),
    ]);
    await page.goto(urls[0]);
    const seen = await page.evaluate(async ([, image, events, chat]) => {
      const img = new Image();
      img.src = image!;
      await img.decode();
      const source = new EventSource(events!);
      const heard: string[] = [];
      await new Promise<void>((resolve) => {
        source.onmessage = ({ data }) => {
          heard.push(data);
          if (data === "two") resolve();
        };
      });
      source.close();
      const socket = new WebSocket(chat!);
      const echoed = await new Promise((resolve) => {
        socket.onopen = () => socket.send("hello");
        socket.onmessage = ({ data }) => resolve(data);
      });
      socket.close();
      return { width: img.naturalWidth, heard, echoed };
    }, urls);
    assert.deepEqual(seen, { width: 7, heard: ["one", "two"], echoed: "echo hello" });
    assert.deepEqual(problems, []);
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
