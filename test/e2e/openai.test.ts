/** OpenAI clients, unmodified: only base URL and key are set. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { clientPackages } from "../client-packages.ts";
import { startSvcRun } from "../dev/svc-run.ts";
import { eventually } from "../eventually.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const PAGE = readFileSync(path.join(ROOT, "docs/reference/openai.md"), "utf8");
const [CHAT, CLIENT] = Array.from(PAGE.matchAll(/```python\n(.*?)```/gs), ([, block]) => block!) as [string, string];

/** Faults, by the name of the model that is asked for; the same answers behind routes and from a server of its own. */
const FAULTS = `
import os, time
from chat import response
from svc import Endpoint

@Endpoint(name="faults", workers=(0, 2), max_concurrency=4)
class Faults:
    def ready(self) -> bool:
        return True

    def generate(self, openai_route: str, openai_input: dict):
        model = openai_input["model"]
        if model == "raise":
            raise ValueError("no such colour")
        if model == "own":
            yield {"error": {"message": "the prompt is too long", "type": "BadRequestError", "param": None, "code": 400}}
            return
        if openai_route == "/v1/embeddings":
            yield {"object": "list", "model": model, "usage": {"prompt_tokens": 1, "total_tokens": 1},
                   "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.25]}]}
            return
        if openai_route == "/v1/completions":
            yield {"id": "1", "object": "text_completion", "created": 1, "model": model,
                   "choices": [{"index": 0, "text": openai_input["prompt"], "finish_reason": "stop", "logprobs": None}]}
            return
        yield response("chat.completion.chunk", delta={"role": "assistant", "content": "first"})
        if model == "late":
            raise ValueError("no such colour")
        if model == "exit":
            os._exit(3)
        if model == "text":
            yield "just words"
        while model == "endless":
            yield response("chat.completion.chunk", delta={"content": "."})
            time.sleep(0.01)

@Endpoint(name="plain", workers=(0, 1))
def plain(text: str) -> str:
    return text

api = Endpoint(name="routes", workers=(0, 1))

@api.post("/v1/chat/completions")
def completions(model: str, messages: list, stream: bool = False, stream_options: dict | None = None):
    words = [response("chat.completion.chunk", delta={"content": m["content"]}) for m in messages]
    if stream:
        return ("data: " + __import__("json").dumps(word) + "\\n\\n" for word in [*words])
    return response("chat.completion", message={"role": "assistant", "content": messages[-1]["content"]}, finish_reason="stop")

Endpoint(name="server", command=["python", "server.py", "{port}"], workers=(0, 1))
`;

/** Standard library only. */
const SERVER = `
import http.server, json, sys
sys.path.insert(0, ".")
from chat import response

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = body["messages"][-1]["content"]
        self.send_response(200)
        if body.get("stream"):
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for word in text.split(" "):
                chunk = response("chat.completion.chunk", delta={"content": word + " "})
                self.wfile.write(f"data: {json.dumps(chunk)}\\n\\n".encode())
            self.wfile.write(b"data: [DONE]\\n\\n")
            self.close_connection = True
            return
        answer = json.dumps(response("chat.completion", message={"role": "assistant", "content": text}, finish_reason="stop")).encode()
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`;

const ASK_PYTHON = `
import json, os, sys
import openai

key = os.environ["PLATFORM_API_KEY"]
said = {"role": "user", "content": "Hello from here"}

def client(base, key=key):
    return openai.OpenAI(base_url=base, api_key=key, max_retries=0)

def whole(base):
    return client(base).chat.completions.create(model="echo", messages=[said]).choices[0].message.content

def streamed(base):
    chunks = client(base).chat.completions.create(model="echo", messages=[said], stream=True)
    return "".join(c.choices[0].delta.content or "" for c in chunks)

def failure(base, key=key, **body):
    try:
        answer = client(base, key).chat.completions.create(**{"model": "echo", "messages": [said], **body})
        return "".join(c.choices[0].delta.content or "" for c in answer)
    except openai.APIError as error:
        return [type(error).__name__, getattr(error, "status_code", None), error.code, error.message, bool(getattr(error, "request_id", None))]

bases = json.loads(sys.argv[1])
for name in ("chat", "routes", "server", "local"):
    print(json.dumps([name, whole(bases[name]), streamed(bases[name])]))
chat, faults = client(bases["chat"]), client(bases["faults"])
print(json.dumps([
    [model.id for model in chat.models.list()],
    chat.chat.completions.create(model="echo", messages=[said]).usage.total_tokens,
    faults.completions.create(model="m", prompt="on").choices[0].text,
    faults.embeddings.create(model="m", input="x", encoding_format="float").data[0].embedding,
]))
for model in ("raise", "own", "late", "text", "exit"):
    print(json.dumps([model, *failure(bases["faults"], model=model, stream=True)]))
print(json.dumps(["plain", *failure(bases["plain"])]))
print(json.dumps(["key", *failure(bases["chat"], key="sk-foreign")]))
print(json.dumps(["lb", *failure(bases["routes"], key="sk-foreign")]))
endless = faults.chat.completions.create(model="endless", messages=[said], stream=True)
for n, chunk in zip(range(20), endless): pass
print(json.dumps(["endless", endless.response.headers["x-request-id"]]))
endless.close()
`;

const ASK_NODE = `
import OpenAI from "openai";
const [bases] = process.argv.slice(1).map((text) => JSON.parse(text));
const said = [{ role: "user", content: "Hello from here" }];
const client = (name, apiKey = process.env.PLATFORM_API_KEY) => new OpenAI({ baseURL: bases[name], apiKey, maxRetries: 0 });
for (const name of ["chat", "routes", "server", "local"]) {
  const { chat } = client(name);
  const whole = await chat.completions.create({ model: "echo", messages: said });
  let streamed = "";
  for await (const chunk of await chat.completions.create({ model: "echo", messages: said, stream: true }))
    streamed += chunk.choices[0].delta.content ?? "";
  console.log(JSON.stringify([name, whole.choices[0].message.content, streamed]));
}
const failure = async (name, model, key) => {
  let text = "";
  try {
    const answer = await client(name, key).chat.completions.create({ model, messages: said, stream: true });
    for await (const chunk of answer) text += chunk.choices[0].delta.content ?? "";
    return [text];
  } catch (error) {
    return [text, error.constructor.name, error.status ?? null, error.code];
  }
};
for (const model of ["raise", "late", "text"]) console.log(JSON.stringify([model, ...(await failure("faults", model))]));
console.log(JSON.stringify(["key", ...(await failure("chat", "echo", "sk-foreign"))]));
`;

const NOT_THERE = "the openai packages are not installed here, and no package index can be reached";

test("The openai packages of Python and Node call functions, routes, servers and svc run, and raise what went wrong", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "chat.py": CHAT, "faults.py": FAULTS, "server.py": SERVER });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const local = await startSvcRun(t, platform, cwd);
  const bases = JSON.stringify({
    chat: `${urls.chat}/openai/v1`,
    faults: `${urls.faults}/openai/v1`,
    plain: `${urls.plain}/openai/v1`,
    routes: `${urls.routes}/v1`,
    server: `${urls.server}/v1`,
    local: `${local.url}/chat/openai/v1`,
  });
  const env = { PATH: process.env.PATH, PLATFORM_API_KEY: platform.key };
  const told = async (program: string, args: readonly string[], folder: string, more: Record<string, string> = {}) => {
    const { code, stdout, stderr } = await runProcess(program, args, { cwd: folder, env: { ...env, ...more } });
    assert.equal(code, 0, stderr);
    return stdout.trim().split("\n");
  };
  const packages = await clientPackages("openai.md");
  const same = [
    ["chat", "Hello from here", "Hello from here "],
    ["routes", "Hello from here", "Hello from here"],
    ["server", "Hello from here", "Hello from here "],
    ["local", "Hello from here", "Hello from here "],
  ];

  await t.test("Python", async (t) => {
    if (packages === undefined) return t.skip(NOT_THERE);
    const { python } = packages;
    assert.deepEqual(await told(python, ["-c", CLIENT], cwd, { ENDPOINT_URL: urls.chat! }), ["Hello from here"]);
    const lines = (await told(python, ["-c", ASK_PYTHON, bases], cwd)).map((line) => JSON.parse(line));
    assert.deepEqual(lines.splice(0, 4), same);
    assert.deepEqual(lines.shift(), [["echo"], 6, "on", [0.5, -1.25]]);
    const faults = Object.fromEntries(lines.map(([name, ...rest]) => [name, rest]));
    assert.deepEqual(faults.raise, ["InternalServerError", 500, "JOB_FAILED", faults.raise[3], true]);
    assert.match(faults.raise[3], /ValueError: no such colour/);
    assert.deepEqual(faults.own.slice(0, 3), ["BadRequestError", 400, "400"]);
    assert.deepEqual(faults.late.slice(0, 3), ["APIError", null, "JOB_FAILED"]);
    assert.deepEqual(faults.text.slice(0, 3), ["APIError", null, "BAD_RESPONSE"]);
    assert.deepEqual(faults.exit.slice(0, 3), ["APIError", null, "WORKER_LOST"]);
    assert.deepEqual(faults.plain.slice(0, 3), ["BadRequestError", 400, "BAD_INPUT"]);
    assert.match(faults.plain[3], /unknown arguments 'openai_route', 'openai_input'.*plain\(text: str\)/);
    for (const name of ["key", "lb"])
      assert.deepEqual(faults[name].slice(0, 3), ["AuthenticationError", 401, "WRONG_KEY"]);
    const [endless] = faults.endless;
    await eventually(async () =>
      assert.equal((await platform.call(`${urls.faults}/status/${endless}`)).json.status, "CANCELLED"),
    );
  });

  await t.test("Node", async (t) => {
    if (packages === undefined) return t.skip(NOT_THERE);
    const args = ["--input-type=module", "-e", ASK_NODE, bases];
    const lines = (await told(process.execPath, args, packages.node)).map((line) => JSON.parse(line));
    assert.deepEqual(lines.splice(0, 4), same);
    assert.deepEqual(lines, [
      ["raise", "", "InternalServerError", 500, "JOB_FAILED"],
      ["late", "first", "APIError", null, "JOB_FAILED"],
      ["text", "first", "APIError", null, "BAD_RESPONSE"],
      ["key", "", "AuthenticationError", 401, "WRONG_KEY"],
    ]);
  });

  await t.test("The SDK's own clients read code and words of such errors", async () => {
    const asked = `
import sys
from svc import Endpoint
from svc.errors import PlatformError
try:
    Endpoint(id=sys.argv[1], url=sys.argv[2], api_key="svc_wrong").post("/v1/none")
except PlatformError as error:
    print(error.code, error)
`;
    const PYTHONPATH = path.join(ROOT, "python/src");
    const [words] = await told("python3", ["-c", asked, urls.routes!.split("/").at(-1)!, platform.url], cwd, {
      PYTHONPATH,
    });
    assert.match(words!, /^WRONG_KEY .*The API key is unknown, revoked or expired\./);
    assert.doesNotMatch(words!, /[{}]/);
  });
});
