/** The worker of a public package, unmodified, as people's images have it: each kind of handler, and what ends it. */
import assert from "node:assert/strict";
import { cpSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { pythonPackages } from "../python-packages.ts";
import { hasLogged, project, ROOT, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const packages = await pythonPackages(["runpod"]);
const skip = "skip" in packages ? packages.skip : false;
const docker = await dockerForTests();

const HANDLERS = `
import asyncio, os, time, runpod

def wait_for(file):
    while not os.path.exists(file): time.sleep(0.05)

def sync(job):
    given = job["input"]
    if "progress" in given: runpod.serverless.progress_update(job, {"at": given["progress"]})
    if "tell" in given: open(given["tell"], "w").write(str(os.getpid()))
    if "wait" in given: wait_for(given["wait"])
    if "raise" in given: raise ValueError(given["raise"])
    if "error" in given: return {"error": given["error"]}
    if "refresh" in given: return {"refresh_worker": True, "pid": os.getpid()}
    if "large" in given: return "x" * given["large"]
    return {"pid": os.getpid(), "given": given}

async def many(job):
    if "tell" in job["input"]: open(job["input"]["tell"], "a").write(job["id"] + " ")
    while "wait" in job["input"] and not os.path.exists(job["input"]["wait"]): await asyncio.sleep(0.05)
    return os.getpid()

def stream(job):
    for n in range(job["input"]["n"]): yield {"n": n}
    if "raise" in job["input"]: raise RuntimeError("in the middle")

async def astream(job):
    for n in range(job["input"]["n"]):
        yield n
        await asyncio.sleep(0)

kind = os.environ["KIND"]
more = {
    "many": {"concurrency_modifier": lambda now: 4},
    "stream": {"return_aggregate_stream": True},
}.get(kind, {})
runpod.serverless.start({"handler": {"sync": sync, "many": many, "stream": stream, "astream": astream}[kind], **more})
`;

const MAIN = (workers: Record<string, string>) => `
from svc import Endpoint
${Object.entries(workers)
  .map(
    ([kind, more]) =>
      `Endpoint(name="${kind}", command=["python", "handlers.py"], protocol="pull", env={"KIND": "${kind}"}, ${more})`,
  )
  .join("\n")}
`;

async function endpoints(platform: TestPlatform, cwd: string): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await platform.svc(["deploy"], { cwd });
  assert.equal(code, 0, stdout + stderr);
  return Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
}

function caller(platform: () => TestPlatform) {
  const call = async (url: string, input: object) => {
    const answer = await platform().call(`${url}/runsync?wait=200000`, { body: { input } });
    return answer.json;
  };
  const run = async (url: string, input: object) =>
    (await platform().call(`${url}/run`, { body: { input } })).json.id as string;
  const status = async (url: string, id: string) => (await platform().call(`${url}/status/${id}`)).json;
  const cancel = async (url: string, id: string) =>
    (await platform().call(`${url}/cancel/${id}`, { method: "POST" })).json;
  const becomes = (url: string, id: string, state: string) =>
    eventually(async () => {
      const now = await status(url, id);
      assert.equal(now.status, state, JSON.stringify(now));
      return now;
    }, 120_000);
  return { call, run, status, cancel, becomes };
}

/** Of docs/reference/pull-workers.md: the declaration, and the program. */
const PAGE = Array.from(
  readFileSync(path.join(ROOT, "docs/reference/pull-workers.md"), "utf8").matchAll(/```python\n(.*?)```/gs),
  ([, block]) => block!,
);

/** Confinement has tests of its own: here the package's folder must be readable, wherever it is kept. */
const ENV = { SVC_ISOLATION: "none" };

function files(workers: Record<string, string>): Record<string, string> {
  const dir = "dir" in packages ? packages.dir : "";
  const path = `import sys; sys.path.insert(0, ${JSON.stringify(dir)})\n`;
  // The package is there already.
  const declared = PAGE[0]!.replace(/^ *dependencies=.*\n/m, "");
  return {
    "main.py": MAIN(workers),
    "handlers.py": path + HANDLERS,
    "captions.py": declared,
    "handler.py": path + PAGE[1],
  };
}

test("Handlers of every kind work: results, errors, progress, logs, streams, several at once, refresh", {
  skip,
}, async (t) => {
  const platform = await startPlatform(t, ENV);
  const cwd = project(
    t,
    files({ sync: "workers=(0, 1)", many: "workers=(0, 1)", stream: "workers=(0, 1)", astream: "workers=(0, 1)" }),
  );
  const url = await endpoints(platform, cwd);
  const { call, run, status, cancel, becomes } = caller(() => platform);
  const gate = (name: string) => path.join(platform.shared, name);

  const caption = await platform.svc(["call", "captions", "text=a quiet street"], { cwd });
  assert.deepEqual(JSON.parse(caption.stdout), { caption: "A Quiet Street" }, caption.stderr);
  const first = await call(url.sync!, { text: "grüße", big: [1, null] });
  assert.equal(first.status, "COMPLETED", JSON.stringify(first));
  assert.deepEqual(first.output.given, { text: "grüße", big: [1, null] });
  await hasLogged(platform, cwd, ["sync", "--job", first.id], /INFO Started\./, /INFO Finished\./);
  const returned = await call(url.sync!, { error: "in words" });
  assert.deepEqual([returned.status, returned.error], ["FAILED", "in words"]);
  const raised = await call(url.sync!, { raise: "a bad value" });
  assert.equal(raised.status, "FAILED");
  const failure = JSON.parse(raised.error);
  assert.deepEqual([failure.error_type, failure.error_message], ["<class 'ValueError'>", "a bad value"]);
  assert.match(failure.error_traceback, /handlers\.py/);
  assert.equal((await call(url.sync!, { large: 3_000_000 })).output.length, 3_000_000);
  const long = await run(url.sync!, { progress: 7, wait: gate("progress") });
  await eventually(async () => assert.deepEqual((await status(url.sync!, long)).output, { at: 7 }));
  writeFileSync(gate("progress"), "");
  await becomes(url.sync!, long, "COMPLETED");

  // A handler that asks for a fresh worker gets one.
  const refreshed = await call(url.sync!, { refresh: true });
  assert.equal(refreshed.output.pid, first.output.pid);
  const after = await call(url.sync!, {});
  assert.notEqual(after.output.pid, first.output.pid);

  // Four at once on one worker; one of them is cancelled, another before it began.
  const tell = gate("begun");
  const together = await Promise.all([1, 2, 3, 4].map(() => run(url.many!, { wait: gate("many"), tell })));
  await eventually(() => assert.equal(readFileSync(tell, "utf8").split(" ").length, 5), 120_000);
  const behind = await run(url.many!, {});
  assert.equal((await cancel(url.many!, behind)).status, "CANCELLED");
  assert.equal((await cancel(url.many!, together[0]!)).status, "CANCELLED");
  writeFileSync(gate("many"), "");
  const pids = await Promise.all(
    together.slice(1).map(async (id) => (await becomes(url.many!, id, "COMPLETED")).output),
  );
  assert.equal(new Set(pids).size, 1);
  assert.equal((await call(url.many!, {})).output, pids[0], "the worker lives on");
  assert.doesNotMatch(readFileSync(tell, "utf8"), new RegExp(behind));

  // Generators: chunks for /stream; the whole where it is wanted.
  const streamed = await run(url.stream!, { n: 3 });
  assert.deepEqual((await becomes(url.stream!, streamed, "COMPLETED")).output, [{ n: 0 }, { n: 1 }, { n: 2 }]);
  const { stream } = (await platform.call(`${url.stream}/stream/${streamed}`)).json;
  assert.deepEqual(
    stream.map(({ output }: { output: unknown }) => output),
    [{ n: 0 }, { n: 1 }, { n: 2 }],
  );
  const broken = await call(url.stream!, { n: 1, raise: true });
  assert.equal(broken.status, "FAILED");
  assert.match(broken.error, /in the middle/);
  const quiet = await run(url.astream!, { n: 2 });
  assert.deepEqual((await becomes(url.astream!, quiet, "COMPLETED")).output, []);
});

test("Cancels, a killed worker, a killed platform and SIGTERM: nothing is lost, and what cannot be stopped is replaced", {
  skip,
}, async (t) => {
  let platform = await startPlatform(t, ENV);
  const { restart } = platform;
  const settings = { sync: "workers=(0, 1), idle_timeout=600", many: "workers=(0, 1)" };
  const cwd = project(t, files(settings));
  const url = await endpoints(platform, cwd);
  const { call, run, cancel, becomes } = caller(() => platform);
  const gate = (name: string) => path.join(platform.shared, name);
  const told = (file: string) =>
    eventually(() => {
      const pid = Number(readFileSync(file, "utf8"));
      assert.ok(pid > 0);
      return pid;
    }, 120_000);

  // An async handler stops where it waits, and its worker goes on.
  const before = (await call(url.many!, {})).output;
  const awaited = await run(url.many!, { wait: gate("never"), tell: gate("many") });
  await eventually(() => assert.ok(existsSync(gate("many"))));
  await cancel(url.many!, awaited);
  assert.equal((await call(url.many!, {})).output, before);

  // A sync one cannot be stopped: its worker is replaced, and the next job runs.
  const stuck = await run(url.sync!, { wait: gate("never"), tell: gate("stuck") });
  const stuckPid = await told(gate("stuck"));
  await cancel(url.sync!, stuck);
  const next = await call(url.sync!, {});
  assert.equal(next.status, "COMPLETED", JSON.stringify(next));
  assert.notEqual(next.output.pid, stuckPid);
  await eventually(() => assert.equal(existsSync(`/proc/${stuckPid}`), false));
  await becomes(url.sync!, stuck, "CANCELLED");

  // kill -9 of the worker.
  const lost = await run(url.sync!, { wait: gate("lost"), tell: gate("lost-pid") });
  process.kill(await told(gate("lost-pid")), "SIGKILL");
  writeFileSync(gate("lost"), "");
  assert.equal((await becomes(url.sync!, lost, "COMPLETED")).retries, 1);

  // kill -9 of the platform, with jobs under way: the worker's result is taken by the next one. A sync handler keeps its
  // process from noticing that its connections broke; this client gives such a result up, and the job runs again.
  const blocked = await run(url.sync!, { wait: gate("long"), tell: gate("long-pid") });
  await told(gate("long-pid"));
  const survivor = await run(url.many!, { wait: gate("long"), tell: gate("survivor") });
  await eventually(() => assert.ok(existsSync(gate("survivor"))));
  await platform.kill();
  platform = await restart();
  writeFileSync(gate("long"), "");
  const done = await becomes(url.many!, survivor, "COMPLETED");
  assert.deepEqual([done.output, done.retries], [before, undefined]);
  await becomes(url.sync!, blocked, "COMPLETED");

  // SIGTERM, by a new revision: what runs is finished.
  const last = await run(url.sync!, { wait: gate("last"), tell: gate("last-pid") });
  const lastPid = await told(gate("last-pid"));
  writeFileSync(
    path.join(cwd, "main.py"),
    MAIN({ ...settings, sync: "workers=(0, 2), idle_timeout=600, max_concurrency=2" }),
  );
  const deploying = endpoints(platform, cwd);
  await eventually(async () => assert.notEqual((await call(url.sync!, {})).output.pid, lastPid));
  writeFileSync(gate("last"), "");
  assert.equal((await becomes(url.sync!, last, "COMPLETED")).output.pid, lastPid);
  await deploying;
  await eventually(() => assert.equal(existsSync(`/proc/${lastPid}`), false));
});

test("The package in an unmodified image, as people have it", { skip: skip || docker.skip }, async (t) => {
  const context = tempDir(t);
  const name = `svc-test/pull-package:${process.pid}`;
  writeFileSync(path.join(context, "handlers.py"), HANDLERS);
  writeFileSync(
    path.join(context, "Dockerfile"),
    `FROM ${docker.image}\nCOPY packages /packages\nENV PYTHONPATH=/packages KIND=sync\nCOPY handlers.py /\nCMD ["python3", "-u", "/handlers.py"]\n`,
  );
  cpSync("dir" in packages ? packages.dir : "", path.join(context, "packages"), { recursive: true });
  const built = await runProcess("docker", ["build", "--quiet", "--tag", name, context]);
  assert.equal(built.code, 0, built.stderr);
  t.after(() => docker.engine.getImage(name).remove({ force: true }));
  const platform = await startPlatform(t, docker.env);
  const cwd = project(t, { "main.py": `from svc import Endpoint\nEndpoint(name="sync", image="${name}")\n` });
  const url = await endpoints(platform, cwd);
  const { call } = caller(() => platform);
  const done = await call(url.sync!, { text: "in a container" });
  assert.deepEqual(done.output?.given, { text: "in a container" }, JSON.stringify(done));
  await hasLogged(platform, cwd, ["sync", "--job", done.id], /INFO Finished\./);
});
