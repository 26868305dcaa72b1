/** `svc run` as a developer meets it: a real platform, a real server, real saves. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, renameSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { hostname } from "node:os";
import path from "node:path";
import { before, describe, type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { liveEnvironment, userName } from "../../src/dev/live.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { type RunningServer, startSvcRun } from "../dev/svc-run.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { suiteContext } from "../suite-context.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const HELLO = `from svc import Endpoint, progress
from helper import WORD
import time

VERSION = "one"

@Endpoint(name="hello", workers=(1, 2))
def hello(name: str = "you") -> dict:
    """Says hello.

    In several words."""
    print(f"hello to {name}")
    progress({"half": True})
    return {"hello": name, "version": VERSION, "word": WORD}
`;
const FAST = `from svc import Endpoint

api = Endpoint(name="api", workers=(0, 2), max_concurrency=4)

@Endpoint(name="fast", workers=(0, 2))
def fast():
    return VERSION

@api.get("/version")
def version():
    return VERSION
`;
const FILES = { "hello.py": HELLO, "helper.py": 'WORD = "first"\n' };
const WAIT_MS = 60_000;

interface Answer {
  readonly status: number;
  readonly timing: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  readonly json: any;
}

async function call(server: RunningServer, route: string, input: unknown = {}): Promise<Answer> {
  const response = await fetch(server.url + route, { method: "POST", body: JSON.stringify({ input }) });
  return { status: response.status, timing: response.headers.get("server-timing"), json: await response.json() };
}

async function until(what: () => boolean | Promise<boolean>, says: () => string): Promise<void> {
  const end = Date.now() + WAIT_MS;
  while (!(await what())) {
    assert.ok(Date.now() < end, says());
    await delay(20);
  }
}

const shows = (server: RunningServer, pattern: RegExp) =>
  until(
    () => pattern.test(server.output()),
    () => `${pattern} was not shown:\n${server.output()}`,
  );

/** Of this project. */
const liveOf = async ({ platform, cwd }: { readonly platform: TestPlatform; readonly cwd: string }) => {
  const { apps } = await platform.query<{
    apps: { environments: { name: string; endpoints: { name: string; id: string; workersMin: number }[] }[] }[];
  }>("{ apps { environments { name endpoints { name id workersMin } } } }");
  const own = liveEnvironment({ user: userName(), host: hostname(), projectDir: cwd });
  return apps.flatMap(({ environments }) => environments).filter(({ name }) => name === own);
};

/** Of tests that do nothing to it. */
let shared: TestPlatform;

/** A project and its server. Servers stop before their platform and their folders go. */
async function open(
  t: TestContext,
  files: Record<string, string> = FILES,
  args: readonly string[] = [],
  { ownPlatform = false } = {},
) {
  const servers: RunningServer[] = [];
  t.after(async () => {
    for (const each of servers) await each.stop();
  });
  const platform = ownPlatform ? await startPlatform(t) : shared;
  const cwd = project(t, files, "shop");
  const start = async (...more: string[]) => {
    const started = await startSvcRun(t, platform, cwd, more);
    servers.push(started);
    return started;
  };
  const server = await start(...args);
  const save = (file: string, text: string) => writeFileSync(path.join(cwd, file), text);
  return { platform, cwd, server, save, start };
}

describe("svc run", { concurrency: 2 }, () => {
  const context = suiteContext();
  before(async () => {
    shared = await startPlatform(context);
  });

  test("each call runs the code of the last save, also of helper modules, and a broken save keeps the old code", async (t) => {
    const { server, save, platform, cwd } = await open(t);
    assert.match(server.output(), /LOCAL PATH +DESCRIPTION +KIND\nPOST \/hello\/runsync +Says hello\. +QB\n/);
    assert.deepEqual(await liveOf({ platform, cwd }), [], "nothing is deployed before the first call");

    const first = await call(server, "/hello/runsync", { name: "Ann" });
    assert.deepEqual(first.json.output, { hello: "Ann", version: "one", word: "first" });
    assert.match(first.timing!, /^queue;dur=[\d.]+, boot;dur=[\d.]+, import;dur=[\d.]+, exec;dur=/);
    await shows(server, /hello │ hello to Ann\nhello » \{"half":true\}\nPOST \/hello\/runsync 200 in \d+ ms \(.*exec/);
    const [place] = await liveOf({ platform, cwd });
    assert.match(place!.name, /^live-[a-z0-9_-]+-[0-9a-f]{4}$/);
    assert.deepEqual(
      place!.endpoints.map(({ name, workersMin }) => [name, workersMin]),
      [["live-hello", 0]],
    );

    for (let round = 0; round < 10; round++) {
      save("hello.py", HELLO.replace('"one"', `"round ${round}"`));
      const { json } = await call(server, "/hello/runsync");
      assert.equal(json.output?.version, `round ${round}`, JSON.stringify(json));
    }
    save("helper.py", 'WORD = "second"\n');
    assert.equal((await call(server, "/hello/runsync")).json.output.word, "second");

    save("hello.py", HELLO.replace("def hello(", "def hello(("));
    const kept = await call(server, "/hello/runsync");
    assert.deepEqual([kept.status, kept.json.output.version], [200, "round 9"]);
    await shows(
      server,
      /error\[syntax-error\]: .*\n +--> hello\.py:8:\d+\n(.*\n)+.*\^(.*\n)+The code before this save goes on/,
    );

    save("hello.py", HELLO.replace("VERSION = ", "VERSION = nowhere or "));
    const broken = await call(server, "/hello/runsync");
    assert.equal(broken.json.status, "FAILED", "code that cannot be imported fails the call at once");
    assert.match(broken.json.error, /NameError: name 'nowhere' is not defined/);
    await shows(server, /POST \/hello\/runsync 200 FAILED in/);

    save("hello.py", HELLO.replace('"one"', '"mended"'));
    assert.equal((await call(server, "/hello/runsync")).json.output.version, "mended");
  });

  test("under load no call runs on code that is older than the save before it", async (t) => {
    const files = { "fast.py": FAST.replaceAll("VERSION", "0") };
    const { server, save } = await open(t, files, [], { ownPlatform: true });
    await Promise.all([call(server, "/fast/runsync"), fetch(`${server.url}/fast/version`)]);
    let saved = 0;
    let over = false;
    const seen = new Set<number>();
    const caller = async (version: () => Promise<unknown>) => {
      while (!over) {
        const before = saved;
        const ran = await version();
        assert.ok(typeof ran === "number" && ran >= before, `saved ${before}, ran ${JSON.stringify(ran)}`);
        seen.add(ran);
      }
    };
    const queued = async () => {
      const { json } = await call(server, "/fast/runsync");
      return json.output ?? json;
    };
    const routed = async () => (await fetch(`${server.url}/fast/version`)).json();
    const running = Promise.all([queued, queued, routed, routed].map(caller));
    for (let round = 1; round <= 12; round++) {
      save("fast.py", FAST.replaceAll("VERSION", String(round)));
      saved = round;
      // Every third save comes right behind the one before.
      if (round % 3 !== 1)
        await Promise.race([
          until(
            () => seen.has(round),
            () => `${round} never ran`,
          ),
          running,
        ]);
    }
    over = true;
    await running;
    assert.ok(seen.has(12) && seen.size > 3, [...seen].join(" "));
  });

  test("functions that come and go appear in the table; a failed function is a failed job with its place", async (t) => {
    const { server, save, cwd } = await open(t);
    save(
      "new.py",
      'from svc import Endpoint\n\n@Endpoint(name="fresh")\ndef fresh(n: int):\n    """Is new."""\n    return 10 / n\n',
    );
    assert.equal((await call(server, "/new/runsync", { n: 5 })).json.output, 2);
    await shows(server, /\+ POST \/new\/runsync\n/);
    const failed = await call(server, "/new/runsync", { n: 0 });
    assert.deepEqual([failed.status, failed.json.status], [200, "FAILED"]);
    await shows(server, /error\[ZeroDivisionError\]: division by zero\n +--> new\.py:6:5\n(.*\n)+.*return 10 \/ n\n/);

    unlinkSync(path.join(cwd, "new.py"));
    const gone = await call(server, "/new/runsync", { n: 1 });
    assert.deepEqual([gone.status, gone.json.code], [404, "NOT_FOUND"]);
    assert.match(gone.json.detail, /POST \/hello\/runsync/);
    await shows(server, /- POST \/new\/runsync\n/);
  });

  test("the health check, pages of other sites, and the key that never leaves", async (t) => {
    const { server, platform } = await open(t);
    const health = await fetch(`${server.url}/`);
    const { version, ...rest } = (await health.json()) as { version: string };
    assert.deepEqual(rest, { status: "ok", service: "svc run", docs: "/docs" });
    assert.match(version, /^\d/);
    const foreign = await fetch(`${server.url}/hello/runsync`, {
      method: "POST",
      body: "{}",
      headers: { origin: "https://elsewhere.example" },
    });
    assert.equal(foreign.status, 403);
    const pages = await Promise.all(["/", "/docs", "/docs/openapi.json"].map((page) => fetch(server.url + page)));
    const texts = await Promise.all(pages.map((page) => page.text()));
    const { json } = await call(server, "/hello/runsync");
    for (const text of [...texts, JSON.stringify(json), server.output()]) assert.ok(!text.includes(platform.key));
  });

  test("a busy port is passed over, with the message; a wrong key stops the start", async (t) => {
    const busy = createServer().listen(0, "127.0.0.1");
    t.after(() => busy.close());
    await once(busy, "listening");
    const { port } = busy.address() as { port: number };
    const { server, platform, cwd } = await open(t, FILES, ["--port", String(port)]);
    assert.match(server.output(), new RegExp(`^Port ${port} is in use, using ${port + 1} instead$`, "m"));
    assert.equal(server.url, `http://localhost:${new URL(server.url).port}`);
    const wrong = await platform.svc(["run", "--port", "0"], { cwd, env: { PLATFORM_API_KEY: "svc_wrong" } });
    assert.equal(wrong.code, 1);
    assert.match(
      wrong.stderr,
      /error: The API key svc_wrong… is not valid.*\n +Set PLATFORM_API_KEY or run svc login\./,
    );
    assert.equal(wrong.stdout, "");
  });

  test("a function that calls another endpoint's finds it: it is made live with the first call", async (t) => {
    const infer = 'from svc import Endpoint\n@Endpoint(name="infer")\ndef infer(n: int): return n * VERSION\n';
    const pipeline =
      'from svc import Endpoint\nfrom infer import infer\n@Endpoint(name="pipeline")\ndef pipeline(n: int): return infer(n) + 1\n';
    const alone = 'from svc import Endpoint\n@Endpoint(name="alone")\ndef alone(): return 1\n';
    const files = { "infer.py": infer.replace("VERSION", "10"), "pipeline.py": pipeline, "alone.py": alone };
    const { server, platform, cwd, save } = await open(t, files);
    assert.equal((await call(server, "/pipeline/runsync", { n: 4 })).json.output, 41);
    const live = (await liveOf({ platform, cwd })).flatMap(({ endpoints }) => endpoints.map(({ name }) => name));
    assert.deepEqual(live.sort(), ["live-infer", "live-pipeline"]);
    save("infer.py", infer.replace("VERSION", "100"));
    assert.equal((await call(server, "/pipeline/runsync", { n: 4 })).json.output, 401);
  });

  test("--no-reload keeps to the code of the start", async (t) => {
    const { server, save } = await open(t, FILES, ["--no-reload"]);
    save("hello.py", HELLO.replace('"one"', '"two"'));
    assert.equal((await call(server, "/hello/runsync")).json.output.version, "one");
  });

  test("live endpoints that the server made go with it, and stay when somebody made them before", async (t) => {
    const { server, platform, cwd, start } = await open(t);
    await call(server, "/hello/runsync");
    const other = await start();
    assert.equal(await other.stop(), 0);
    assert.match(other.output(), /Live endpoints that stay: live-hello\n/);
    assert.equal(await server.stop(), 0);
    assert.match(server.output(), /\nRemoved: live-hello\n$/);
    await until(
      async () => (await liveOf({ platform, cwd })).length === 0,
      () => "the live environment is still there",
    );
  });

  test("a call that runs when the server ends is shown as stopped", async (t) => {
    const slow =
      'import time\nfrom svc import Endpoint\n@Endpoint(name="slow")\ndef slow():\n    print("begun", flush=True)\n    time.sleep(600)\n';
    const { server } = await open(t, { "slow.py": slow });
    const running = assert.rejects(call(server, "/slow/runsync"));
    await until(
      () => server.output().includes("slow │ begun"),
      () => server.output(),
    );
    assert.equal(await server.stop(), 0);
    await running;
    assert.match(server.output(), /\nPOST \/slow\/runsync stopped after \d+ ms: svc run ends\n/);
    assert.doesNotMatch(server.output(), /cannot be reached/);
  });

  test("live endpoints that are kept outlive the server, are used again, belong to no deploy, and go with undeploy", async (t) => {
    const { server, platform, cwd, start } = await open(t, FILES, ["--keep"]);
    await call(server, "/hello/runsync");
    const before = await liveOf({ platform, cwd });
    assert.equal(await server.stop(), 0);
    const { name: environment } = before[0]!;
    assert.match(
      server.output(),
      new RegExp(
        `Live endpoints that stay: live-hello\nRemove them with: svc undeploy --all --app shop --env ${environment}\n$`,
      ),
    );
    const again = await start();
    assert.equal((await call(again, "/hello/runsync")).json.status, "COMPLETED");
    assert.deepEqual(await liveOf({ platform, cwd }), before);

    const refused = await platform.svc(["deploy", "--env", environment], { cwd });
    assert.match(refused.stderr, /Names that begin with "live-" belong to svc run/);
    const deployed = await platform.svc(["deploy"], { cwd });
    assert.match(deployed.stdout, /^Deployed shop\/production\./);

    const removed = await platform.svc(["undeploy", "--all", "--app", "shop", "--env", environment, "--force"], {
      cwd,
    });
    assert.equal(removed.stdout, `Removed live-hello (shop/${environment}).\n`, removed.stderr);
    const environments = async () => (await liveOf({ platform, cwd })).length;
    await until(
      async () => (await environments()) === 0,
      () => "the live environment is still there",
    );
    assert.equal((await call(again, "/hello/runsync")).json.status, "COMPLETED", "it is made again by the next call");
  });

  test("what it writes into its project is no new code, and a project that goes away ends it with one message", async (t) => {
    const platform = shared;
    const cwd = project(t, FILES, "shop");
    const log = path.join(cwd, "out.txt");
    const said = () => readFileSync(log, "utf8");
    const config = path.join(platform.dir, "config");
    const env = {
      PATH: process.env.PATH,
      PLATFORM_URL: platform.url,
      PLATFORM_API_KEY: platform.key,
      SVC_CONFIG_DIR: config,
    };
    const command = [SVC, "run", "--port", "0"];
    const output = openSync(log, "w");
    const child = spawn(command[0]!, command.slice(1), { cwd, env, stdio: ["ignore", output, output] });
    closeSync(output);
    t.after(() => child.kill());
    const ended = once(child, "exit");
    await until(() => /Listening on/.test(said()), said);
    const server = { url: /Listening on (http:\S+),/.exec(said())![1]!, output: said } as RunningServer;
    for (let calls = 0; calls < 3; calls++) assert.equal((await call(server, "/hello/runsync")).status, 200);
    assert.doesNotMatch(said(), /has the new code/);

    const moved = `${cwd}-moved`;
    renameSync(cwd, moved);
    const [code] = await ended;
    const words = readFileSync(path.join(moved, "out.txt"), "utf8");
    rmSync(moved, { recursive: true });
    assert.equal(code, 1);
    assert.match(
      words,
      /\nRemoved: live-hello\nerror: The project folder \S+ does not exist any more\.\n {2}It was moved or removed meanwhile\..*\n {2}svc help BUILD_FAILED\n$/,
    );
    assert.doesNotMatch(words, /defect|\n {4}at /);
    assert.deepEqual(await liveOf({ platform, cwd }), []);
  });

  test("code that somebody else deployed to the live endpoint is replaced before the call runs", async (t) => {
    const { server, cwd, start } = await open(t);
    await call(server, "/hello/runsync");
    // The same folder's environment, with older code: as a second server with --no-reload would do.
    const other = await start("--no-reload");
    writeFileSync(path.join(cwd, "hello.py"), HELLO.replace('"one"', '"two"'));
    assert.equal((await call(server, "/hello/runsync")).json.output.version, "two");
    assert.equal((await call(other, "/hello/runsync")).json.output.version, "one");
    assert.equal((await call(server, "/hello/runsync")).json.output.version, "two");
  });

  test("a platform that goes away is told about and found again", async (t) => {
    const { server, platform } = await open(t, FILES, [], { ownPlatform: true });
    assert.equal((await call(server, "/hello/runsync")).json.status, "COMPLETED");
    await platform.kill();
    await shows(server, /warning: The platform at http\S+ does not answer\. Looking for it…/);
    const meanwhile = await call(server, "/hello/runsync");
    assert.deepEqual([meanwhile.status, meanwhile.json.code], [503, "PLATFORM_UNREACHABLE"]);
    await platform.restart();
    await shows(server, /The platform is back at http/);
    assert.equal((await call(server, "/hello/runsync")).json.status, "COMPLETED");
  });

  test("--auto-provision deploys all at the start, asks above five, and a restart uses them again", async (t) => {
    const names = ["a", "b", "c", "d", "e"];
    const files = Object.fromEntries(
      names.map((name) => [
        `${name}.py`,
        `from svc import Endpoint\n@Endpoint(name="${name}", workers=(0, 1))\ndef ${name}(): return "${name}"\n`,
      ]),
    );
    const { server, platform, cwd, save, start } = await open(t, files, ["--auto-provision"], { ownPlatform: true });
    const live = async () =>
      (await liveOf({ platform, cwd })).flatMap(({ endpoints }) => endpoints.map(({ name }) => name)).sort();
    assert.deepEqual(
      await live(),
      names.map((name) => `live-${name}`),
    );
    const file = path.join(cwd, ".platform/resources.pkl");
    assert.ok(existsSync(file));
    const { stdout } = await runProcess("python3", [
      "-c",
      `import pickle; print(sorted(pickle.load(open(${JSON.stringify(file)}, "rb"))["endpoints"]))`,
    ]);
    assert.equal(stdout.trim(), "['live-a', 'live-b', 'live-c', 'live-d', 'live-e']");
    await server.stop();

    save("a.py", files["a.py"]!.replace("(0, 1)", "(0, 2)"));
    const again = await start("--auto-provision");
    assert.match(again.output(), /Re-used: live-b, live-c, live-d, live-e\n/);
    assert.match(again.output(), /a is live as live-a/);
    assert.equal((await call(again, "/b/runsync")).json.output, "b");
    await again.stop();

    rmSync(file);
    save("f.py", files["a.py"]!.replaceAll('"a"', '"f"').replace("def a", "def f"));
    const asked = await start("--auto-provision");
    assert.match(asked.output(), /To be deployed \(6\): .*\nDeploy 6 endpoints now\? \[y\/N\]/);
    assert.match(asked.output(), /Nothing was deployed: each endpoint is deployed with its first call\./);
    assert.equal((await call(asked, "/f/runsync")).json.output, "f");
    // Written when the endpoint is live, which its first call does not wait for.
    await eventually(() => assert.ok(existsSync(file)));
  });
});
