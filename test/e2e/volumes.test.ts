/** Volumes as functions have them: shared in an environment, kept, and out of everybody else's reach. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { getOrInsert } from "../../src/lib/get-or-insert.ts";
import { dockerForTests } from "../docker.ts";
import { suiteContext } from "../suite-context.ts";
import { project, ROOT, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const docker = await dockerForTests();
const isRoot = process.getuid?.() === 0;

const platforms = new Map<string, Promise<TestPlatform>>();
const context = suiteContext();

/** One for all tests that want the same: each has an app of its own. */
function platformWith(env: Record<string, string>): Promise<TestPlatform> {
  return getOrInsert(platforms, JSON.stringify(env), () => startPlatform(context, { SVC_WORKER_QUOTA: "100", ...env }));
}

async function deploy(platform: TestPlatform, cwd: string, ...args: string[]) {
  const { code, stdout, stderr } = await platform.svc(["deploy", ...args], { cwd });
  assert.equal(code, 0, stdout + stderr);
}

/** Runs one job; `environment` is where the endpoint is. */
async function run(platform: TestPlatform, name: string, input: object, environment = "production") {
  const { myself } = await platform.query<{
    myself: { endpoints: { name: string; environment: string; url: string }[] };
  }>("{ myself { endpoints { name environment url } } }");
  const { url } = myself.endpoints.find((one) => one.name === name && one.environment === environment)!;
  return (await platform.call(`${url}/runsync`, { body: { input } })).json;
}

async function namespacesMissing(t: TestContext, platform: TestPlatform, cwd: string): Promise<boolean> {
  const { code, stderr } = await platform.svc(["deploy"], { cwd });
  if (code === 0) return false;
  assert.match(stderr, /volume="\w+" cannot be mounted: this machine lacks namespaces/);
  t.skip(`this machine makes no namespaces for workers: ${stderr}`);
  return true;
}

const FILES = `
import os, pathlib, pwd, stat
from svc import Endpoint

def act(how, path, text=""):
    file = pathlib.Path(path)
    if how == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as out:
            out.write(text)
        return pwd.getpwuid(os.getuid()).pw_uid
    if how == "read":
        return file.read_text()
    if how == "list":
        return sorted(os.listdir(path))
    if how == "fill":
        with file.open("wb") as out:
            for _ in range(64):
                out.write(bytes(1 << 20))
                out.flush()

@Endpoint(name="one", volume="shared")
def one(how: str, path: str, text: str = ""):
    return act(how, path, text)

@Endpoint(name="two", volume="shared", boot="OFF")
def two(how: str, path: str, text: str = ""):
    return act(how, path, text)

@Endpoint(name="other", volume="else")
def other(how: str, path: str, text: str = ""):
    return act(how, path, text)

@Endpoint(name="none")
def none(how: str, path: str, text: str = ""):
    return act(how, path, text)
`;

async function example(t: TestContext, env: Record<string, string>) {
  const platform = await platformWith(env);
  const cwd = path.join(tempDir(t), "model-volume");
  cpSync(path.join(ROOT, "examples/model-volume"), cwd, { recursive: true });
  if (await namespacesMissing(t, platform, cwd)) return;
  const input = { points: [[0, 1], [1, 3], [2, 5]] }; // biome-ignore format: pairs
  assert.deepEqual((await run(platform, "train", input)).output, { slope: 2, offset: 1 });
  assert.equal((await run(platform, "predict", { x: 10 })).output, 21);

  cpSync(path.join(cwd, "models.py"), path.join(cwd, "copy.txt")); // another source, and so other workers
  await deploy(platform, cwd);
  assert.equal((await run(platform, "predict", { x: 20 })).output, 41, "after a deploy");
  const file = path.join(platform.dataDir, "volumes/model-volume/production/models/line.json");
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), { slope: 2, offset: 1 });
}

test("A volume written by one endpoint is read by another one, and after a deploy", (t) => example(t, {}));
test("Containers have volumes as processes do", { skip: docker.skip }, (t) => example(t, docker.env));

test("Only endpoints that name a volume reach it, and they change each other's files there", async (t) => {
  const platform = await platformWith({});
  const cwd = project(t, { "main.py": FILES }, "reach");
  if (await namespacesMissing(t, platform, cwd)) return;
  const act = async (name: string, how: string, at: string, text = "") => {
    const { status, output, error } = await run(platform, name, { how, path: at, text });
    return status === "COMPLETED" ? output : `refused: ${error}`;
  };
  const first = await act("one", "write", "/volumes/shared/deep/file", "one ");
  const second = await act("two", "write", "/runpod-volume/deep/file", "two");
  if (isRoot) assert.notEqual(first, second, "each endpoint is a user of its own");
  assert.equal(await act("one", "read", "/runpod-volume/deep/file"), "one two");

  const folder = path.join(platform.dataDir, "volumes/reach/production/shared");
  assert.equal(readFileSync(path.join(folder, "deep/file"), "utf8"), "one two");
  for (const name of ["other", "none"]) {
    for (const at of ["/volumes/shared", folder, `/volumes/else/../shared`]) {
      assert.match(await act(name, "list", at), /^refused: /, `${name} ${at}`);
      assert.match(await act(name, "read", `${at}/deep/file`), /^refused: /, `${name} ${at}`);
    }
  }
  assert.deepEqual(await act("other", "list", "/volumes"), ["else"]);
  // Beside the volumes it sees the cache that all of its environment share, and no other name.
  assert.deepEqual(await act("none", "list", path.dirname(folder)), ["svc-cache"]);
  assert.deepEqual(await act("other", "list", "/runpod-volume"), []);
  // A link leads no further than the view of who follows it.
  execFileSync("ln", ["-s", path.join(folder, "deep/file"), path.join(path.dirname(folder), "else/link")]);
  assert.match(await act("other", "read", "/volumes/else/link"), /^refused: /);
  assert.match(await act("one", "write", "/volumes/beside/file"), /^refused: .*Read-only/);
  if (isRoot) assert.equal(statSync(path.join(platform.dataDir, "volumes/reach")).mode & 0o077, 0);

  await deploy(platform, cwd, "--env", "staging");
  const elsewhere = await run(platform, "one", { how: "list", path: "/volumes/shared" }, "staging");
  assert.deepEqual(elsewhere.output, [], "another environment has a volume of its own");
});

const SEVERAL = `
import os
from svc import Endpoint, Volume

@Endpoint(name="writer", volume="notes", volumes={"/mnt/svc-test/models": Volume("models"), "/models": "models"})
def writer(path: str):
    with open(path, "w") as out:
        out.write("hello")
    return sorted(os.listdir("/mnt/svc-test")), os.path.isdir("/usr/bin")

@Endpoint(name="reader", volumes={"/models": Volume("models", read_only=True)})
def reader(path: str):
    assert open("/models/a").read() == "hello"
    with open(path, "w") as out:
        out.write("changed")
`;

async function several(t: TestContext, env: Record<string, string>) {
  const platform = await platformWith(env);
  const cwd = project(t, { "main.py": SEVERAL }, "several");
  if (await namespacesMissing(t, platform, cwd)) return;
  const written = await run(platform, "writer", { path: "/mnt/svc-test/models/a" });
  assert.deepEqual(written.output, [["models"], true], JSON.stringify(written));
  for (const path of ["/models/b", "/volumes/notes/c"]) {
    assert.equal((await run(platform, "writer", { path })).status, "COMPLETED", path);
  }
  for (const path of ["/models/a", "/models/new"]) {
    const { status, error } = await run(platform, "reader", { path });
    assert.equal(status, "FAILED");
    assert.match(error, /Read-only file system/);
  }
  const kept = (name: string) => readdirSync(path.join(platform.dataDir, "volumes/several/production", name)).sort();
  assert.deepEqual([kept("models"), kept("notes")], [["a", "b"], ["c"]]);

  // What would cover svc itself is refused before anything is built; a container has a place of its own for that.
  if (env.SVC_DRIVER === "docker") return;
  const top = `/${ROOT.split("/")[1]}`;
  const covering = `from svc import Endpoint\n@Endpoint(name="w", volumes={"${top}": "x"})\ndef w(): ...`;
  const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "main.py": covering }) });
  assert.notEqual(code, 0);
  assert.match(stderr, /would cover (what belongs to the system|.*, which every worker)/);
}
test("An endpoint has several volumes at paths of its own, and changes none that it may only read", (t) =>
  several(t, {}));
test("Containers have several volumes, too", { skip: docker.skip }, (t) => several(t, docker.env));

const CACHING = `
import os, pathlib
from svc import Endpoint

def fetched(name: str):
    found = {}
    for variable in ("HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "PIP_CACHE_DIR"):
        file = pathlib.Path(os.environ[variable], "weights", name)
        found[variable] = file.exists()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return found

@Endpoint(name="fetch")
def fetch(name: str):
    return fetched(name)

@Endpoint(name="share")
def share(name: str):
    return fetched(name)

@Endpoint(name="own", env={"HF_HOME": "/tmp/mine"})
def own():
    return os.environ["HF_HOME"]
`;

async function caches(t: TestContext, env: Record<string, string>) {
  const platform = await platformWith(env);
  const cwd = project(t, { "main.py": CACHING }, "caching");
  await deploy(platform, cwd);
  const found = async (name: string, file: string, environment?: string) => {
    const { output, error } = await run(platform, name, { name: file }, environment);
    assert.equal(typeof output, "object", error);
    return [...new Set(Object.values(output))];
  };
  assert.deepEqual(await found("fetch", "a"), [false]);
  assert.deepEqual(await found("share", "a"), [true], "another endpoint of the environment");
  assert.equal((await run(platform, "own", {})).output, "/tmp/mine");
  cpSync(path.join(cwd, "main.py"), path.join(cwd, "copy.txt")); // another source, and so other workers
  await deploy(platform, cwd);
  assert.deepEqual(await found("fetch", "a"), [true], "after a deploy");
  await deploy(platform, cwd, "--env", "staging");
  assert.deepEqual(await found("fetch", "a", "staging"), [false], "another environment");

  const listed = await platform.svc(["volume", "list", "--env", "production"], { cwd });
  assert.match(listed.stdout, /svc-cache .*all \(cache of what workers fetch\)/);
  const place = ["--env", "production"];
  const deleted = await platform.svc(["volume", "delete", "svc-cache", "--force", ...place], { cwd });
  assert.match(deleted.stderr, /used by fetch, share, own|used by .*fetch/);
  assert.equal((await platform.svc(["volume", "rm", "svc-cache", "/", "--recursive", ...place], { cwd })).code, 0);
  assert.deepEqual(await found("share", "a"), [false], "it was emptied");
}

test("What workers fetch stays for all of their environment, and for no other", (t) => caches(t, {}));
test("So it does without isolation", (t) => caches(t, { SVC_ISOLATION: "none" }));
test("So it does in containers", { skip: docker.skip }, (t) => caches(t, docker.env));

test("A strict worker writes to its volume", async (t) => {
  const platform = await startPlatform(t, { SVC_ISOLATION: "strict" });
  const cwd = project(t, { "main.py": FILES });
  if (await namespacesMissing(t, platform, cwd)) return;
  assert.equal(
    (await run(platform, "one", { how: "write", path: "/volumes/shared/a", text: "x" })).status,
    "COMPLETED",
  );
  assert.equal((await run(platform, "two", { how: "read", path: "/volumes/shared/a" })).output, "x");
});

test("Without isolation there are no volumes, which the deploy says before it builds anything", async (t) => {
  const platform = await platformWith({ SVC_ISOLATION: "none" });
  const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "main.py": FILES }) });
  assert.notEqual(code, 0);
  assert.match(stderr, /Endpoint "one": volume="shared" cannot be mounted: SVC_ISOLATION=none/);
  const names = (await platform.endpoints()).map(({ name }) => name);
  assert.ok(!names.includes("one") && !names.includes("none"), names.join());
});

test("A volume on a full disk fails the job that writes to it, and nothing else", {
  skip: isRoot ? false : "needs root to mount a small disk",
}, async (t) => {
  const volumes = mkdtempSync(path.join(tmpdir(), "svc-volumes-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "svc-test", volumes]);
  const unmount = () => {
    execFileSync("umount", ["-l", volumes]);
    rmdirSync(volumes);
  };
  t.after(() => t.after(unmount)); // after the platform, which else makes its folders on the disk below
  const platform = await startPlatform(t, { SVC_VOLUMES_DIR: volumes });
  const cwd = project(t, { "main.py": FILES });
  if (await namespacesMissing(t, platform, cwd)) return;
  const full = await run(platform, "one", { how: "fill", path: "/volumes/shared/large" });
  assert.equal(full.status, "FAILED");
  assert.match(full.error, /No space left on device/);
  assert.ok(existsSync(path.join(volumes, "app/production/shared/large")));
  assert.deepEqual((await run(platform, "two", { how: "list", path: "/volumes/shared" })).output, ["large"]);
  assert.deepEqual((await run(platform, "none", { how: "list", path: "/tmp" })).status, "COMPLETED");
  assert.equal((await platform.svc(["status"], { cwd })).code, 0);
});
