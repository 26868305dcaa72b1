import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { project, ROOT, startPlatform, type TestPlatform } from "./platform.ts";

const FILES = path.join(import.meta.dirname, "calling");

function files(): Record<string, string> {
  const names = readdirSync(FILES).filter((name) => name.endsWith(".py"));
  return Object.fromEntries(names.map((name) => [name, readFileSync(path.join(FILES, name), "utf8")]));
}

async function deployed(t: TestContext, env: Record<string, string> = {}) {
  const platform = await startPlatform(t, env);
  const cwd = project(t, files(), "shop");
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  return { platform, cwd };
}

function environment(platform: TestPlatform): Record<string, string | undefined> {
  return {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    PYTHONPATH: path.join(ROOT, "python/src"),
    PYTHONDONTWRITEBYTECODE: "1",
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    SVC_CONFIG_DIR: path.join(platform.dir, "config"),
  };
}

async function python(platform: TestPlatform, cwd: string, code: readonly string[]) {
  const { code: status, stdout, stderr } = await runProcess("python3", code, { cwd, env: environment(platform) });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

test("endpoints call each other and a script calls them, with one result everywhere", {
  timeout: 300_000,
}, async (t) => {
  const { platform, cwd } = await deployed(t);
  const found = await python(platform, cwd, ["from_outside.py"]);

  await t.test(
    "positional and keyword arguments, generators, routes, methods, map and spawn from a sync function",
    () => {
      const { failure, "route failure": routeFailure, "broken stream": broken, ...values } = found.sync;
      assert.deepEqual(values, {
        positional: 6,
        keywords: 8,
        moved: true,
        chunks: [
          [0, "b''"],
          [1, "b'\\x00'"],
          [2, "b'\\x00\\x00'"],
        ],
        route: { id: 7, q: "a b" },
        values: "{1}",
        large: true,
        larger: true,
        method: 4,
        mapped: [0, 1, 2, 3, 4],
        spawned: 9,
        "imported inside": 1,
      });
      assert.deepEqual(broken, [[0, "b''"], [1, "b'\\x00'"], "no more"]);
      assert.deepEqual(failure.slice(0, 3), ["infer", "ValueError", "x is negative: -1"]);
      assert.match(failure[3], /File "infer\.py", line \d+, in infer\n/);
      assert.deepEqual(routeFailure.slice(0, 3), ["api", "KeyError", "KeyError: 'key'"]);
      assert.match(routeFailure[3], /in boom/);
    },
  );

  await t.test("from an async function, at the same time", () => {
    // Its own result is annotated as a dict, which names no class: a Point in it arrives as a dict.
    const part = (x: number) => ({ x, color: "red", at: "datetime.date(2024, 1, 1)" });
    assert.deepEqual(found.async, {
      gathered: [0, 1, 2, 3, 4],
      moved: { x: 2, color: "red", at: null },
      parts: [part(0), part(1)],
      chunks: [
        [0, "b''"],
        [1, "b'\\x00'"],
      ],
      mapped: [0, 1, 2, 3],
      method: 3,
    });
  });

  await t.test("from a load-balanced endpoint, whose own function is a plain call", () => assert.equal(found.web, 40));

  await t.test("a circle of calls names its chain", () => {
    assert.match(found.cycle, /^endpoint 'first' failed: .*in a circle: first → second → first\./);
    assert.match(found.cycle, /Remote traceback \(endpoint 'second', job /);
  });

  await t.test("fn.map of 1,000 items and fn.local", () => {
    assert.equal(found.many, 499_500);
    assert.equal(found.local, 3);
  });
});

test("the callee gets what is left of the caller's time, and ends with it", { timeout: 300_000 }, async (t) => {
  const { platform, cwd } = await deployed(t);
  const gate = path.join(platform.dir, "never");
  const outcome = await python(platform, cwd, [
    "-c",
    `
import json, svc
from callers import hurried
from infer import gated, left
own = left()
try:
    hurried(${JSON.stringify(gate)})
except svc.CallError as error:
    print(json.dumps([own, type(error).__name__, str(error)]))
`,
  ]);
  assert.ok(outcome[0] > 500, "without a caller's deadline it is the endpoint's own time");
  assert.equal(outcome[1], "JobTimedOut", outcome[2]);
  const callee = (await platform.endpoints()).find(({ name }) => name === "gated")!;
  // Both have the same end: the caller's may be told first.
  const request = await eventually(async () => {
    const { requests } = (await platform.call(`${callee.url}/requests`)).json;
    assert.equal(requests.length, 1);
    assert.match(requests[0].status, /CANCELLED|TIMED_OUT/);
    return requests[0];
  });
  assert.deepEqual(request.input.$svc.hops, ["hurried"]);
});

test("a caller finds an endpoint that was removed and deployed again, though it knows the old address", {
  timeout: 300_000,
}, async (t) => {
  const { platform, cwd } = await deployed(t);
  const urlOf = async (name: string) => (await platform.endpoints()).find((endpoint) => endpoint.name === name)!.url;
  const again = await urlOf("again");
  const call = async (x: number) => (await platform.call(`${again}/runsync`, { body: { input: { x } } })).json;
  const script = await conversation(t, platform, cwd);
  assert.equal(await script.say("infer(5)"), "5");
  const before = await call(1);
  assert.equal(before.output, 1, JSON.stringify(before));
  const old = await urlOf("infer");

  const undeploy = await platform.svc(["undeploy", "infer", "--force"], { cwd });
  assert.equal(undeploy.code, 0, undeploy.stderr);
  const missing = await call(2);
  assert.equal(missing.status, "FAILED");
  assert.match(
    missing.error,
    /endpoint 'infer' is not deployed in environment 'production' of app 'shop': run svc deploy/,
  );
  assert.match(await script.say("infer(6)"), /NotDeployed.*has no endpoint of that name. Run svc deploy\./);

  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  assert.notEqual(await urlOf("infer"), old);
  assert.equal((await call(3)).output, 3);
  assert.equal(await script.say("infer(7)"), "7");
});

test("a wait survives a platform that is killed and started again, in a script and in a worker", {
  timeout: 300_000,
}, async (t) => {
  const { platform, cwd } = await deployed(t);
  const gate = path.join(platform.shared, "gate");
  const script = await conversation(t, platform, cwd);
  const streaming = await conversation(t, platform, cwd);
  // From here on a chunk's number is not how many there were.
  assert.equal(await streaming.say(`list(ticks("/"))`), "[1, 2, 3, 4]");
  const answer = script.say(`[waiter(${JSON.stringify(gate)})]`);
  const chunks = streaming.say(`[listener(${JSON.stringify(gate)}), list(ticks(${JSON.stringify(gate)}))]`);
  const named = async (name: string) => (await platform.endpoints()).find((endpoint) => endpoint.name === name)!;
  const callee = await named("gated");
  await begun(platform, callee.url);
  await begun(platform, (await named("ticks")).url);
  await platform.kill();
  const back = await platform.restart();
  writeFileSync(gate, "");
  assert.equal(await answer, "['opened']");
  assert.equal(await chunks, "[[1, 2, 3, 4], [1, 2, 3, 4]]");
  const { requests } = (await back.call(`${callee.url}/requests`)).json;
  assert.deepEqual(
    requests.map((job: { status: string }) => job.status),
    ["COMPLETED"],
    "one job, and not a second one",
  );
});

/** Until the only job of this endpoint has reported its first progress. */
async function begun(platform: TestPlatform, url: string): Promise<void> {
  for (;;) {
    const { requests } = (await platform.call(`${url}/requests`)).json;
    if (requests[0]?.output === "begun") return;
    if (requests[0] !== undefined) await platform.call(`${url}/status-sync/${requests[0].id}?wait=1000`);
  }
}

/** A script that goes on living: evaluates what it is told and prints the result in one line. */
async function conversation(t: TestContext, platform: TestPlatform, cwd: string) {
  const code = `
import sys
from callers import *
for line in sys.stdin:
    try:
        print(eval(line), flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], flush=True)
`;
  const child = spawn("python3", ["-c", code], {
    cwd,
    env: environment(platform) as NodeJS.ProcessEnv,
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => child.kill());
  const lines = createInterface({ input: child.stdout });
  return {
    async say(expression: string): Promise<string> {
      const answer = once(lines, "line");
      child.stdin.write(`${expression}\n`);
      return String((await answer)[0]);
    },
  };
}
