import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { ownMachineOnly } from "../pods.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const WORKER = `
import os, socket, struct, sys, time
from svc import Endpoint

@Endpoint(name="bad", workers=(0, 4), cpu="cpu3c-1-2")
def bad(how, argument=None):
    return globals()[how](argument)

@Endpoint(name="good", workers=(0, 1))
def good(n):
    return n + 1

def eat(_):
    data = []
    while True:
        data.append(bytearray(64 << 20))

def orphan(_):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            os.execv("/bin/sleep", ["sleep", "600"])
        os._exit(0)
    print("orphan", int(os.read(read, 20)), flush=True)
    time.sleep(0.3)
    os._exit(3)

def flood(lines):
    for _ in range(lines):
        print("x" * 1000)
        os.write(1, b"y" * 1000 + b"\\n")
    return lines

def bomb(_):
    made = 0
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
        except OSError:
            return made
        made += 1

def hang(_):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

def dial(path):
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(5)
    link.connect(path)
    head = b'{"protocol":1,"role":"launcher","token":"svcw_guessed","worker":"launcher","pid":1}'
    link.sendall(struct.pack(">IBBHI", 8 + len(head), 1, 0, len(head), 0) + head)
    return link.recv(100)[4]

def listing(path):
    return sorted(os.listdir(path))
`;

async function deployed(t: TestContext) {
  const platform = await startPlatform(t, { SECRET_OF_THE_USER: "s3cret-value" });
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const urls = new Map((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const run = async (how: string, argument?: unknown, policy?: object) => {
    const submitted = await platform.call(`${urls.get("bad")}/run`, { body: { input: { how, argument }, policy } });
    const job = await platform.call(`${urls.get("bad")}/status-sync/${submitted.json.id}?wait=90000`);
    return job.json;
  };
  const good = async () => {
    const job = await platform.call(`${urls.get("good")}/runsync`, { body: { input: { n: 1 } } });
    assert.deepEqual([job.json.status, job.json.output], ["COMPLETED", 2], job.text);
  };
  return { platform, run, good };
}

/** The platform's own files, socket and launcher. */
const besidePlatform = ownMachineOnly("its agent stands in the platform's place there (test/conformance/driver.ts)");

test("A worker that misbehaves ends only its own job, with the cause", async (t) => {
  const { platform, run, good } = await deployed(t);
  await good();

  await t.test("out of memory names the machine type and its limit", async () => {
    const job = await run("eat");
    await good();
    assert.equal(job.status, "FAILED");
    assert.match(job.error, /^worker lost after 1 retry: killed: memory limit 2 GB of cpu3c-1-2$|MemoryError/);
  });

  await t.test("an exit in the middle of a job names the code, and what it left running goes with it", async () => {
    const job = await run("orphan");
    await good();
    assert.deepEqual(
      [job.status, job.retries, job.error],
      ["FAILED", 1, "worker lost after 1 retry: exited with code 3"],
    );
  });

  await t.test("an output flood is cut, and its job completes", async () => {
    const [job] = await Promise.all([run("flood", 20_000), good(), good()]);
    assert.deepEqual([job.status, job.output], ["COMPLETED", 20_000]);
  });

  await t.test("a fork bomb hits the limit of its worker", async () => {
    const job = await run("bomb");
    await good();
    // Where the kernel has no group for each worker, one that made too many is ended.
    if (job.status === "FAILED") assert.match(job.error, /killed: limit of 1024 processes/);
    else assert.ok(job.status === "COMPLETED" && job.output <= 1024, JSON.stringify(job));
  });

  await t.test("a job that hangs and ignores its cancel is killed when its time is over", async () => {
    const job = await run("hang", undefined, { executionTimeout: 5000 });
    await good();
    assert.equal(job.status, "TIMED_OUT");
  });

  await t.test(
    "user code that dials the platform's socket with a guess is refused",
    { skip: besidePlatform },
    async () => {
      const job = await run("dial", path.join(platform.dataDir, "run/platform.sock"));
      assert.deepEqual([job.status, job.output], ["COMPLETED", 3]);
    },
  );

  await t.test("the platform's files are not there for user code", { skip: besidePlatform }, async () => {
    const job = await run("listing", platform.dataDir);
    assert.deepEqual([job.status, job.output], ["COMPLETED", ["layers", "run", "tmp", "volumes"]]);
    const volumes = await run("listing", path.join(platform.dataDir, "volumes"));
    assert.equal(volumes.output.length, 1, "no volume but those that it has, and its environment's cache");
  });
  await t.test("no variable of the user's own is in the launcher's environment", { skip: besidePlatform }, async () => {
    const { pid } = JSON.parse(readFileSync(path.join(platform.dataDir, "launcher.json"), "utf8"));
    const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
    assert.match(environment, /PATH=/);
    assert.doesNotMatch(environment, /s3cret-value|HOSTNAME/);
  });
  await nothingLeft(platform);
});

test("A boot that fails is told in the user's own frames and is not tried in a loop", async (t) => {
  const platform = await startPlatform(t);
  const effects = path.join(platform.shared, "boots.txt");
  const worker = `
from svc import Endpoint

def configure():
    with open(${JSON.stringify(effects)}, "a") as out:
        out.write("boot\\n")
    raise RuntimeError("there is no configuration")

configure()

@Endpoint(name="broken", workers=(0, 3))
def broken():
    return 1
`;
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) });
  const said = deploy.stdout + deploy.stderr;
  assert.notEqual(deploy.code, 0, said);
  assert.match(said, /RuntimeError: there is no configuration/);
  assert.match(said, /worker\.py", line 9, in <module>/);
  assert.doesNotMatch(said, /importlib|_runtime|_values/);

  const [endpoint] = await platform.endpoints();
  const calls = Array.from({ length: 5 }, () => platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } }));
  for (const { json, text } of await Promise.all(calls)) {
    assert.equal(json.status, "FAILED", text);
    assert.match(text, /there is no configuration/);
  }
  const boots = readFileSync(effects, "utf8").trim().split("\n").length;
  assert.ok(boots <= 4, `${boots} boots`);
});

test("Code that does not start in one environment does not stop the same code in another", async (t) => {
  const platform = await startPlatform(t);
  const isBroken = path.join(platform.shared, "is-broken");
  const worker = `
import os
from svc import Endpoint

if os.path.exists(${JSON.stringify(isBroken)}):
    raise RuntimeError("there is no configuration")

@Endpoint(name="same", workers=(0, 1))
def same():
    return 1
`;
  const cwd = project(t, { "worker.py": worker });
  const deploy = (env: string) => platform.svc(["deploy", "--env", env], { cwd });
  const first = await deploy("one");
  assert.equal(first.code, 0, first.stderr);
  writeFileSync(isBroken, "");
  const second = await deploy("two");
  assert.match(second.stdout + second.stderr, /RuntimeError: there is no configuration/);
  const states = async (env: string) => {
    const { stdout } = await platform.svc(["status", "--env", env, "--json"], { cwd });
    return (JSON.parse(stdout) as { state: string }[]).map(({ state }) => state);
  };
  assert.deepEqual([await states("one"), await states("two")], [["READY"], ["BLOCKED"]]);
});

/** After a stop none of the processes that the jobs made is there. */
async function nothingLeft(platform: TestPlatform): Promise<void> {
  await platform.stop();
  const { runProcess } = await import("../../src/lib/run-process.ts");
  // The launcher ends by itself when its platform has.
  await eventually(async () => {
    const { stdout } = await runProcess("ps", ["-eo", "pid,args"]);
    assert.doesNotMatch(stdout, new RegExp(`${platform.dataDir}`));
  });
}
