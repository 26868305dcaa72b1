/** `svc call`: what it sends, what it prints, and where. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { CTRL_C, CTRL_D, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { project, startPlatform } from "./platform.ts";

const WORKER = `
from svc import Endpoint

@Endpoint(name="divide", workers=(0, 1))
def divide(a: int, b: int = 2, word: str = "x"):
    print("dividing")
    return {"quotient": a / b, "word": word}

@Endpoint(name="say", workers=(0, 1))
def say(text: str):
    return text.upper()

@Endpoint(name="count", workers=(0, 1))
def count(to: int):
    for i in range(to):
        yield {"i": i}

@Endpoint(name="model", workers=(0, 1))
class Model:
    def predict(self, text: str, top: int = 2) -> dict:
        return {"text": text, "top": top}

    def embed(self, text: str) -> list:
        return [len(text)]

api = Endpoint(name="api", workers=(0, 1))

@api.get("/items/{item_id}")
def item(item_id: int, tags: list[str] = []):
    print("looked up")
    return {"id": item_id, "tags": tags}

@api.post("/echo")
def echo(text: str):
    return text

@api.get("/lines")
def lines():
    yield "one\\n"
    yield "two\\n"

@api.get("/bytes")
def raw():
    return bytes([0, 255, 10])

@api.post("/broken")
def broken():
    raise ValueError("not today")
`;

test("svc call prints what functions, classes and routes give back, and fails as they fail", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "worker.py": WORKER });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const call = (words: string[], input = "") => platform.svc(["call", ...words], { cwd, input });
  const json = async (...words: string[]) => {
    const { stdout, stderr, code } = await call(words);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  };

  // The input in all its forms; a text parameter stays text.
  assert.deepEqual(await json("divide", "a=6", "b=3", "word=7"), { quotient: 2, word: "7" });
  assert.deepEqual(await json("divide", '{"a": 6}'), { quotient: 3, word: "x" });
  writeFileSync(path.join(cwd, "input.json"), '{"a": 8}');
  writeFileSync(path.join(cwd, "text.json"), '{"text": "hello"}');
  assert.deepEqual(await json("divide", "@input.json"), { quotient: 4, word: "x" });
  assert.deepEqual(JSON.parse((await call(["divide", "-"], '{"a": 10}')).stdout), { quotient: 5, word: "x" });
  assert.equal((await call(["say", "text=a=b c"])).stdout, "A=B C\n");
  assert.equal((await call(["count", "to=3"])).stdout, '{"i":0}\n{"i":1}\n{"i":2}\n');

  // Log lines and timing are no part of the result.
  const told = await call(["divide", "a=2", "--logs", "--timing"]);
  assert.deepEqual(JSON.parse(told.stdout), { quotient: 1, word: "x" });
  assert.match(told.stderr, /│ dividing\n/);
  assert.match(told.stderr, /exec \d+.* \(ms\)/);

  // On a terminal what is typed is the input, up to Ctrl+D; what moves while it waits leaves nothing behind.
  const onTerminal = (...words: string[]) => {
    const terminal = openPseudoTerminal([SVC, "call", ...words], {
      cwd,
      env: {
        PATH: process.env.PATH ?? "",
        HOME: process.env.HOME ?? "",
        PLATFORM_URL: platform.url,
        PLATFORM_API_KEY: platform.key,
      },
    });
    t.after(() => terminal.close());
    return terminal;
  };
  const typed = onTerminal("divide", "-", "--logs");
  typed.type(`{"a": 14}\n${CTRL_D}`);
  assert.equal(await typed.ended, 0, typed.text);
  assert.match(typed.text, /│ dividing\n/);
  assert.match(typed.text, /"quotient": 7/);
  const embedded = onTerminal("model", "--method", "embed", "@text.json");
  assert.equal(await embedded.ended, 0, embedded.text);
  assert.match(embedded.text, /^([^\n]* Waiting for the job[^\n]*)?\[\s*5\s*\]\n$/);

  const failed = await call(["divide", "a=1", "b=0"]);
  assert.equal(failed.code, 1);
  assert.equal(failed.stdout, "");
  assert.match(
    failed.stderr,
    /^divide FAILED:\nTraceback[\s\S]*worker\.py[\s\S]*ZeroDivisionError: division by zero\n$/,
  );
  assert.doesNotMatch(failed.stderr, /defect|error:|\.ts:/);

  const submitted = await call(["divide", "a=4", "--async"]);
  const { url } = (await platform.endpoints()).find(({ name }) => name === "divide")!;
  const job = await platform.call(`${url}/status-sync/${submitted.stdout.trim()}?wait=20000`);
  assert.deepEqual(job.json.output, { quotient: 2, word: "x" });
  assert.match(job.headers.get("server-timing") ?? "", /exec;dur=/);

  // A class with several methods: the example that a deploy prints works when it is pasted, and --explain names them.
  const methodless = await call(["model", "text=hi"]);
  assert.equal(methodless.code, 2);
  assert.match(methodless.stderr, /several methods: predict, embed/);
  assert.deepEqual(await json("model", "text=12", "--method", "embed"), [2]);
  assert.match((await call(["model", "--method", "embd"])).stderr, /Did you mean embed\?/);
  const curl = deploy.stdout.split("\n").find((line) => line.includes('"method":"predict"'));
  assert.ok(curl, deploy.stdout);
  const pasted = await runProcess("sh", ["-c", curl.trim()], {
    env: { PATH: process.env.PATH, PLATFORM_API_KEY: platform.key },
  });
  assert.equal(JSON.parse(pasted.stdout).output.top, 2, pasted.stdout);
  const explained = await platform.svc(["build", "--explain"], { cwd });
  assert.match(
    explained.stdout,
    /class +worker\.Model\n +method +predict\(text: str, top: int = 2\)\n +method +embed\(/,
  );

  // Routes.
  assert.deepEqual(await json("api", "--route", "GET /items/{item_id}", "item_id=3", 'tags=["a","b"]'), {
    id: 3,
    tags: ["a", "b"],
  });
  assert.deepEqual(await json("api", "--route", "/items/4"), { id: 4, tags: [] });
  assert.equal((await call(["api", "--route", "POST /echo", "text=hello"])).stdout, "hello\n");
  assert.equal((await call(["api", "--route", "/lines"])).stdout, "one\ntwo\n");
  const logged = await call(["api", "--route", "/items/4", "--logs", "--timing"]);
  assert.match(logged.stderr, /exec .*\(ms\)\n│ looked up\n/);
  const routeless = await call(["api"]);
  assert.equal(routeless.code, 2);
  assert.match(routeless.stderr, /--route "POST \/echo"/);
  const broken = await call(["api", "--route", "POST /broken", "--logs"]);
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /api answered 500 to POST \/broken/);
  assert.match(broken.stderr, /│ ValueError: not today/);
  const bytes = await runProcess("sh", ["-c", `svc call api --route /bytes | od -An -tx1`], {
    cwd,
    env: {
      PATH: `${path.join(import.meta.dirname, "../../bin")}:${process.env.PATH}`,
      HOME: process.env.HOME,
      PLATFORM_URL: platform.url,
      PLATFORM_API_KEY: platform.key,
    },
  });
  assert.equal(bytes.stdout.trim(), "00 ff 0a", bytes.stderr);

  for (const wrong of [
    ["divide", "{a: 1}"],
    ["divide", "[1]"],
    ["divide", "a=1", "b"],
    ["divide", "--route", "/x"],
  ]) {
    const refused = await call(wrong);
    assert.equal(refused.code, 2, `${wrong}: ${refused.stderr}`);
  }
  assert.equal((await call(["divid"])).code, 1);
});

test("svc call says on a terminal what it waits for, and nothing of that stays when the answer comes", async (t) => {
  const platform = await startPlatform(t);
  const over = path.join(platform.shared, "over");
  const source = `
import os, time
from svc import Endpoint

def held():
    while not os.path.exists(${JSON.stringify(over)}):
        time.sleep(0.01)

@Endpoint(name="job", workers=(0, 1))
def job():
    held()
    return "done"

api = Endpoint(name="api", workers=(0, 1))

@api.get("/held")
def route():
    held()
    return "done"
`;
  const cwd = project(t, { "worker.py": source });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key };
  const waits = [
    ["job", /Waiting for the job \S+/],
    ["api", /Waiting for api to answer GET \/held/],
  ] as const;
  const calls = waits.map(([name, text]) => {
    const terminal = openPseudoTerminal([SVC, "call", name], { cwd, env });
    t.after(terminal.close);
    return { terminal, text };
  });
  const piped = platform.svc(["call", "job"], { cwd });
  for (const { terminal, text } of calls) await terminal.shows(text);
  writeFileSync(over, "");
  for (const { terminal } of calls) {
    assert.equal(await terminal.ended, 0, terminal.text);
    // The cursor is back, the line is cleared, and the answer stands there.
    assert.match(terminal.raw, /\x1b\[\?25h\x1b\[1G\x1b\[0Kdone\r\n$/);
  }
  assert.deepEqual({ ...(await piped), stdout: "" }, { code: 0, stdout: "", stderr: "" });
});

test("svc call waits for its job over a restart of the platform, and Ctrl+C says what becomes of it meanwhile", async (t) => {
  const platform = await startPlatform(t);
  const [begun, over] = ["begun", "over"].map((name) => path.join(platform.shared, name)) as [string, string];
  const source = `
import os, time
from svc import Endpoint

@Endpoint(name="held", workers=(0, 1))
def held():
    open(${JSON.stringify(begun)}, "w").close()
    while not os.path.exists(${JSON.stringify(over)}):
        time.sleep(0.01)
    return "done"
`;
  const cwd = project(t, { "worker.py": source });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const called = platform.svc(["call", "held"], { cwd });
  await eventually(() => assert.ok(existsSync(begun)));
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key };
  const terminal = openPseudoTerminal([SVC, "call", "held"], { cwd, env });
  t.after(terminal.close);
  const { url } = (await platform.endpoints())[0]!;
  await terminal.shows(/Waiting for the job \S+/);
  assert.equal((await platform.call(`${url}/health`)).json.jobs.inQueue, 1);
  await platform.kill();
  await terminal.shows(/The platform does not answer\. It has the job/);
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, 130, terminal.text);
  assert.match(terminal.text, /The job \S+ was not cancelled: The platform at \S+ cannot be reached/);
  await platform.restart();
  writeFileSync(over, "");
  const { code, stdout, stderr } = await called;
  assert.equal(code, 0, stderr);
  assert.equal(stdout, "done\n");
  assert.match(stderr, /^The platform does not answer\. It has the job \S+, and is asked again\.$/m);
});
