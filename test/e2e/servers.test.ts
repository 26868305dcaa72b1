/** Endpoints whose requests a server of their own answers: a real one (uvicorn), a slow one, a broken one, a hostile one. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import path from "node:path";
import { test } from "node:test";
import { WebSocket } from "ws";
import { startSvcRun } from "../dev/svc-run.ts";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { hostPid, OWN_PID } from "../host-pid.ts";
import { hasLogged, project, ROOT, startPlatform, type TestPlatform } from "./platform.ts";

const docker = await dockerForTests();

/** The index settings of whoever runs the tests. */
const INDEX = Object.fromEntries(
  Object.entries(process.env).filter((entry): entry is [string, string] => /^(PIP|UV)_|_proxy$/i.test(entry[0])),
);

const PAGE = readFileSync(path.join(ROOT, "docs/reference/servers.md"), "utf8").match(/```python\n(.*?)```/s)![1]!;

function socketOf(url: string, key: string): WebSocket {
  return new WebSocket(url.replace("http", "ws"), { headers: { authorization: `Bearer ${key}` } });
}

test("The example of docs/reference/servers.md answers requests, events and WebSockets, deployed and by svc run", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "chat.py": PAGE });
  const deploy = await platform.svc(["deploy"], { cwd, env: INDEX });
  if (deploy.code !== 0 && /package index cannot be reached/.test(deploy.stderr))
    return t.skip("no package index here");
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const local = await startSvcRun(t, platform, cwd);
  for (const url of [endpoint!.url, `${local.url}/chat`]) {
    assert.equal((await platform.call(`${url}/health`)).text, "fine");
    const events = await platform.call(`${url}/count?to=4`);
    assert.equal(events.headers.get("content-type"), "text/event-stream; charset=utf-8");
    assert.equal(events.text, "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n");
    const missing = await platform.call(`${url}/nowhere`);
    assert.deepEqual([missing.status, missing.text], [404, "Not Found"]);
    assert.equal((await platform.call(`${url}/health`, { method: "HEAD" })).headers.get("content-length"), "4");
    const socket = socketOf(`${url}/echo`, platform.key);
    await once(socket, "open");
    assert.match(socket.extensions, /permessage-deflate/, "the server's own extensions are there");
    for (const text of ["grüße", "x".repeat(300_000)]) {
      socket.send(text);
      assert.equal(String((await once(socket, "message"))[0]), text);
    }
    socket.close(1000);
    await once(socket, "close");
    const [refused] = await once(socketOf(`${url}/nowhere`, platform.key), "error");
    assert.match(String(refused), /403/);
  }
  assert.equal((await platform.call(`${endpoint!.url}/health`, { key: null })).status, 401);
  await hasLogged(platform, cwd, ["chat"], /GET \/count\?to=4/);
});

/** Standard library only; what it does is asked for in the path. */
const SERVER = `
import http.server, os, signal, sys, threading, time, urllib.parse

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/pid":
            self.answer(${OWN_PID}.encode())
        elif path == "/environment":
            self.answer(repr((os.environ.get("MODE"), os.environ["PORT"], os.path.exists("main.py"), dict(self.headers))).encode())
        elif path == "/wait":
            print("waiting", flush=True)
            time.sleep(float(self.path.partition("=")[2]))
            self.answer(b"waited")
        elif path == "/stream":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"x" * 1000)
        elif path == "/exit":
            print("the last words", flush=True)
            os._exit(7)
        else:
            self.answer(b"ready")
    def do_POST(self):
        size = 0
        if "content-length" in self.headers:
            size = len(self.rfile.read(int(self.headers["content-length"])))
        else:
            while length := int(self.rfile.readline(), 16):
                size += len(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
        self.answer(str(size).encode())
    def log_message(self, *given): pass

def leave(*_):
    print("told to stop", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, leave)
time.sleep(float(os.environ.get("SLOW", "0")))
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`;

const declared = (settings: string) => `
from svc import Endpoint
Endpoint(name="web", command=["python", "server.py", "{port}"], ready_path="/health", ${settings})
`;

async function deployed(platform: TestPlatform, cwd: string): Promise<string> {
  const { code, stdout, stderr } = await platform.svc(["deploy"], { cwd });
  assert.equal(code, 0, stdout + stderr);
  return (await platform.endpoints()).find(({ name }) => name === "web")!.url;
}

async function life(platform: TestPlatform, cwd: string): Promise<void> {
  const url = await deployed(platform, cwd);
  const pid = async () => (await platform.call(`${url}/pid`)).text;
  const [, port, inProject, headers] = (await platform.call(`${url}/environment`)).text.slice(1, -1).split(", ");
  assert.match(port!, /^'\d+'$/);
  assert.equal(inProject, "True");
  assert.doesNotMatch(headers!, new RegExp(platform.key));

  // Uploads stream, with a length and without; a caller that leaves ends nothing.
  for (const chunked of [false, true]) {
    const headers = { authorization: `Bearer ${platform.key}`, ...(chunked ? {} : { "content-length": "6000000" }) };
    const req = request(`${url}/sum`, { method: "POST", headers });
    req.write(Buffer.alloc(3_000_000));
    req.end(Buffer.alloc(3_000_000));
    const [res] = await once(req, "response");
    assert.equal(String(await new Response(res).text()), "6000000");
  }
  const first = await pid();
  const leaver = request(`${url}/stream`, { headers: { authorization: `Bearer ${platform.key}` } }).end();
  const [endless] = await once(leaver, "response");
  await once(endless, "data");
  leaver.destroy();
  assert.equal(await pid(), first);

  // The kill of a server under load: those it was answering hear of it, the next one finds another.
  const flight = Array.from({ length: 5 }, () => platform.call(`${url}/wait?s=600`));
  const logs = async () => (await platform.svc(["logs", "web", "--tail", "200"], { cwd })).stdout;
  await eventually(async () => assert.equal((await logs()).match(/waiting/g)?.length, 5));
  process.kill(hostPid(first)!, "SIGKILL");
  for (const answer of await Promise.all(flight)) {
    assert.equal(answer.status, 502, answer.text);
    assert.match(answer.text, /WORKER_LOST/);
  }
  const second = await pid();
  assert.match(second, /^pid:/);
  assert.equal((await platform.call(`${url}/exit`)).json.code, "WORKER_LOST");
  await eventually(async () => assert.match(await pid(), /^pid:/));
  await eventually(async () => {
    const told = await logs();
    assert.match(told, /the server was killed by SIGKILL/);
    assert.match(told, /the server exited with code 7; the last it printed:\n.*the last words/);
  });

  // A worker that is killed takes its server along.
  const orphan = hostPid(await pid())!;
  const worker = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${orphan}/status`, "utf8"))![1]!;
  process.kill(Number(worker), "SIGKILL");
  await eventually(() => assert.ok(!existsSync(`/proc/${orphan}`)));
  await eventually(async () => assert.match(await pid(), /^pid:/));

  // A deploy waits for what runs, then asks the server to stop.
  const slow = platform.call(`${url}/wait?s=3`);
  const old = await pid();
  writeFileSync(path.join(cwd, "more.txt"), "another source");
  await deployed(platform, cwd);
  assert.equal((await slow).text, "waited");
  assert.notEqual(await pid(), old);
  await eventually(async () => assert.match(await logs(), /told to stop/));
}

const LIFE = { "main.py": declared("max_concurrency=8, workers=(1, 1)"), "server.py": SERVER };

test("A server is drained by a deploy, and one that is killed or exits is replaced", async (t) => {
  const platform = await startPlatform(t);
  await life(platform, project(t, LIFE));
});

test("In containers it is the same, and a server may have a fixed port", { skip: docker.skip }, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const fixed = declared("max_concurrency=8, workers=(1, 1), port=18000").replace('"{port}"', '"18000"');
  await life(platform, project(t, { ...LIFE, "main.py": fixed }));
});

test("Two workers on one machine have a port each; a slow server gets the requests once it is ready", async (t) => {
  const platform = await startPlatform(t, { SVC_ISOLATION: "strict" });
  const settings = 'boot="OFF", workers=(0, 2), scaler_value=1, env={"SLOW": "1", "MODE": "fast"}';
  const url = await deployed(platform, project(t, { "main.py": declared(settings), "server.py": SERVER }));
  const ports = new Set<string>();
  const atOnce = (path: string) => Promise.all([1, 2, 3, 4].map(() => platform.call(`${url}${path}`)));
  await eventually(async () => {
    // A worker that is ready answers so fast that no second one is wanted: requests that take their time want it.
    const [answered] = await Promise.all([atOnce("/environment"), atOnce("/wait?s=0.5")]);
    for (const { status, text } of answered) {
      assert.equal(status, 200, text);
      const [mode, port] = text.slice(1, -1).split(", ");
      assert.equal(mode, "'fast'");
      ports.add(port!);
    }
    assert.equal(ports.size, 2);
  });
});

test("A server that cannot start fails the deploy with what is wrong", async (t) => {
  const platform = await startPlatform(t);
  const failing = async (command: string, more = "") => {
    const source = `from svc import Endpoint\nEndpoint(name="web", command=${command}, workers=(0, 1)${more})\n`;
    const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "main.py": source }) });
    assert.equal(code, 1, stderr);
    return stderr;
  };
  const exits = await failing(`["sh", "-c", "echo out; echo no model here >&2; exit 3"]`);
  assert.match(exits, /Endpoint "web" cannot start: ServerExited: .*exited with code 3 before it was ready/);
  assert.match(exits, /no model here/);
  assert.match(await failing(`["no-such-program"]`), /'no-such-program' cannot be run: No such file/);
  const never = await failing(`["python", "-c", "import time; print('loading'); time.sleep(60)"]`, ", ready_timeout=5");
  assert.match(never, /ServerNotReady: .*it was not ready after 5 s: port \d+: nobody listens there\nloading/);
  const busy = `import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_error(503)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()`;
  const sick = await failing(JSON.stringify(["python", "-c", busy]), ', ready_path="/up", ready_timeout=8');
  assert.match(sick, /it was not ready after 8 s: GET \/up on port \d+: status 503/);
  assert.match(
    await failing('["sleep", "9"]', ", port=18000"),
    /port=18000 needs a network of its own.*\{port\}.*SVC_DRIVER=docker/,
  );
});

const HOSTILE = `
import asyncio, sys
OK = b"HTTP/1.1 200 OK\\r\\n"
ANSWERS = {
    "garbage": b"\\x00\\xff\\xfe garbage\\r\\n\\r\\n",
    "other-protocol": b"SSH-2.0-OpenSSH_9.0\\r\\n\\r\\n",
    "silence": b"",
    "half-a-head": OK + b"a: b\\r\\n",
    "both-lengths": OK + b"content-length: 5\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
    "two-lengths": OK + b"content-length: 5\\r\\ncontent-length: 6\\r\\n\\r\\n123456",
    "negative": OK + b"content-length: -1\\r\\n\\r\\n",
    "plus": OK + b"content-length: +5\\r\\n\\r\\n12345",
    "odd-encoding": OK + b"transfer-encoding: chunked, identity\\r\\n\\r\\n0\\r\\n\\r\\n",
    "space-in-name": OK + b"content-length : 5\\r\\n\\r\\n12345",
    "folded": OK + b"a: b\\r\\n c\\r\\ncontent-length: 0\\r\\n\\r\\n",
    "bare-newline": OK + b"a: b\\nset-cookie: evil=1\\r\\ncontent-length: 0\\r\\n\\r\\n",
    "status": b"HTTP/1.1 999 Odd\\r\\ncontent-length: 0\\r\\n\\r\\n",
    "unasked-upgrade": b"HTTP/1.1 101 Switching Protocols\\r\\nupgrade: h2c\\r\\n\\r\\n",
    "interim": b"HTTP/1.1 100 Continue\\r\\n\\r\\n" * 100 + OK + b"content-length: 0\\r\\n\\r\\n",
    "many-headers": OK + b"a: b\\r\\n" * 1000 + b"content-length: 0\\r\\n\\r\\n",
    "short": OK + b"content-length: 100\\r\\n\\r\\nonly this",
}
BROKEN = {
    "short-stream": OK + b"content-length: 200000\\r\\n\\r\\nonly this",
    "bad-chunk": OK + b"transfer-encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\nzz\\r\\n",
    "long-chunk": OK + b"transfer-encoding: chunked\\r\\n\\r\\n5\\r\\nhello and more\\r\\n0\\r\\n\\r\\n",
    "huge-chunk": OK + b"transfer-encoding: chunked\\r\\n\\r\\nffffffffffffffffffff\\r\\nhello",
    "endless-chunk-line": OK + b"transfer-encoding: chunked\\r\\n\\r\\n5;" + b"x" * 200000,
    "cut-chunks": OK + b"transfer-encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\n",
    "endless-trailers": OK + b"transfer-encoding: chunked\\r\\n\\r\\n0\\r\\n" + b"a: b\\r\\n" * 1000,
}
FINE = {
    "smuggled": OK + b"content-length: 5\\r\\n\\r\\nhello" + OK + b"content-length: 4\\r\\n\\r\\nevil",
    "hop-by-hop": OK + b"connection: x-mine, content-length\\r\\nx-mine: 1\\r\\nkeep-alive: 5\\r\\nX-Svc-Worker-Id: me\\r\\ncontent-length: 5\\r\\n\\r\\nhello",
    "until-close": OK + b"\\r\\nhello",
    "early-hints": b"HTTP/1.1 103 Early Hints\\r\\nlink: x\\r\\n\\r\\n" + OK + b"content-length: 5\\r\\n\\r\\nhello",
}
async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        what = head.split()[1].decode().strip("/")
        if what == "endless-headers":
            while True:
                writer.write(OK + b"a: " + b"x" * 9999 + b"\\r\\n")
                await writer.drain()
        if what == "names":
            writer.write(OK + b"\\r\\n" + repr([list(each) for each in (ANSWERS, BROKEN, FINE)]).replace("'", '"').encode())
        else:
            writer.write({**ANSWERS, **BROKEN, **FINE}.get(what, OK + b"content-length: 4\\r\\n\\r\\nfine"))
        await writer.drain()
    except OSError:
        pass
    writer.close()
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()
asyncio.run(main())
`;

test("What a hostile server answers stays within its own request", async (t) => {
  const platform = await startPlatform(t);
  const source = { "main.py": declared("workers=(1, 1), max_concurrency=4"), "server.py": HOSTILE };
  const url = await deployed(platform, project(t, source));
  const [refused, broken, fine] = (await platform.call(`${url}/names`)).json as string[][];
  for (const name of [...refused!, "endless-headers"]) {
    const answer = await platform.call(`${url}/${name}`);
    assert.equal(answer.status, 502, `${name}: ${answer.text}`);
    assert.equal(answer.json.code, "BAD_RESPONSE", name);
    assert.equal(answer.headers.get("set-cookie"), null, name);
  }
  for (const name of broken!) await assert.rejects(platform.call(`${url}/${name}`), name);
  for (const name of fine!) {
    const answer = await platform.call(`${url}/${name}`);
    assert.equal(answer.text, "hello", name);
    assert.equal(answer.headers.get("x-mine"), null, name);
    assert.match(answer.headers.get("x-svc-worker-id")!, /^w-/, name);
  }
  const socket = socketOf(`${url}/socket`, platform.key);
  assert.match(String((await once(socket, "error"))[0]), /200|502/);
  assert.equal((await platform.call(`${url}/after`)).text, "fine", "the next request gets its own answer");
  await hasLogged(platform, platform.dir, ["web"], /GET \/both-lengths: the server's answer is unusable: it has both/);
  assert.ok(existsSync(platform.dataDir));
});
