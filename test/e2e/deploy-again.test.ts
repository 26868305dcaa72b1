import assert from "node:assert/strict";
import { existsSync, globSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { embeddedOnly } from "../servers.ts";
import { startCommand } from "../start-command.ts";
import { project, startPlatform } from "./platform.ts";

const source = (version: string) => `
from svc import Endpoint

@Endpoint(name="hello", workers=(1, 2), boot="OFF")
def hello() -> str:
    return "${version}"
`;

test("After a deploy that cannot start, a rollback takes the worker that still runs as its proof, and the next deploy goes on", async (t) => {
  const platform = await startPlatform(t);
  const dir = project(t, { "worker.py": source("one") });
  const svc = (...args: string[]) => platform.svc(args, { cwd: dir });
  const first = await svc("deploy", "--json");
  assert.equal(first.code, 0, first.stderr);
  const verdicts = async () => {
    const { stdout } = await svc("rollback", "--list", "--json");
    return (JSON.parse(stdout) as { id: string; verdict: string; live: boolean }[]).map(({ verdict }) => verdict);
  };
  await eventually(async () => assert.deepEqual(await verdicts(), ["ready"]));

  writeFileSync(path.join(dir, "worker.py"), `${source("two")}\nraise RuntimeError("broken at import")\n`);
  const broken = await svc("deploy", "--message", "two");
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /broken at import/);
  assert.match(
    broken.stderr,
    /Workers of the build before still take the calls of hello\.\n.*or go back: svc rollback/,
  );
  assert.match((await svc("status")).stdout, /Workers of the build before still take the calls of hello\./);
  await eventually(async () => assert.deepEqual(await verdicts(), ["failed", "ready"]));

  const back = await svc("rollback", "--json");
  assert.equal(back.code, 0, back.stderr);
  assert.equal(JSON.parse(back.stdout).buildId, JSON.parse(first.stdout).buildId);
  const [endpoint] = await platform.endpoints();
  const answer = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  assert.equal(answer.json.output, "one");
  const { stdout: table } = await svc("rollback", "--list");
  assert.match(table, /^\S+ +\S+ \S+ +failed +\S+ m?s +first key +two$/m);
  assert.match(table, /^\S+ +\S+ \S+ +live, ready +/m);
  assert.match(table, /failed: hello: .*broken at import/);

  writeFileSync(path.join(dir, "worker.py"), source("three"));
  const next = await svc("deploy");
  assert.equal(next.code, 0, next.stderr);
});

test("A deploy can undo itself, leave before it is done, only show what it would do, and is refused before anything is installed", async (t) => {
  const platform = await startPlatform(t, { SVC_WORKER_QUOTA: "10" });
  const dir = project(t, { "worker.py": source("one") });
  const svc = (...args: string[]) => platform.svc(args, { cwd: dir });
  const call = async () => {
    const [endpoint] = await platform.endpoints();
    return (await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } })).json.output;
  };
  const broken = `${source("two")}\nraise RuntimeError("broken at import")\n`;
  writeFileSync(path.join(dir, "worker.py"), broken);
  const nothingBefore = await svc("deploy", "--auto-rollback");
  assert.equal(nothingBefore.code, 1);
  assert.match(nothingBefore.stderr, /There is no build before this one\./);

  writeFileSync(path.join(dir, "worker.py"), source("one"));
  const dry = await svc("deploy", "--dry-run");
  assert.equal(dry.code, 0, dry.stderr);
  assert.match(dry.stderr, /~ update +hello +code/);
  assert.equal(dry.stdout, "Nothing was changed. svc deploy makes these changes.\n");
  assert.equal((await svc("deploy")).code, 0);
  assert.equal(await call(), "one");

  writeFileSync(path.join(dir, "worker.py"), broken);
  const undone = await svc("deploy", "--auto-rollback");
  assert.equal(undone.code, 1);
  assert.match(undone.stderr, /Rolled back: an endpoint cannot run\..*broken at import.*is live again\./s);
  assert.equal(await call(), "one");

  writeFileSync(path.join(dir, "worker.py"), source("three"));
  const detached = await svc("deploy", "--detach");
  assert.equal(detached.code, 0, detached.stderr);
  assert.match(detached.stdout, /^app\/production gets the build \S+\. svc status shows when it takes calls\.\n$/);
  await eventually(async () => assert.equal(await call(), "three"));

  const both = await svc("deploy", "--detach", "--auto-rollback", "--dry-run");
  assert.equal(both.code, 2);
  assert.match(both.stderr, /--auto-rollback needs to see.*--dry-run changes nothing/s);

  // A package that no index has: whoever installs first says so.
  const greedy = source("four").replace("workers=(1, 2)", 'workers=(0, 11), dependencies=["no-such-package-anywhere"]');
  writeFileSync(path.join(dir, "worker.py"), greedy);
  const refused = await svc("deploy");
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /workers quota \(10\); this would need 11: hello 11\..*Nothing was uploaded/s);
  const { stdout: key } = await svc("key", "create", "reader", "--scopes", "read");
  const reader = await platform.svc(["deploy"], { cwd: dir, env: { PLATFORM_API_KEY: key.trim() } });
  assert.equal(reader.code, 1);
  assert.match(reader.stderr, /This needs a key with the scope "deploy"/);
});

test("Only endpoints whose code may need a changed file get new workers; the others keep theirs and go on starting from their build", async (t) => {
  const platform = await startPlatform(t);
  const one = (name: string, import_: string) => `
from svc import Endpoint
import ${import_}

@Endpoint(name="${name}", workers=(1, 1))
def ${name}():
    return ${import_}.VALUE
`;
  const dir = project(t, {
    "a.py": one("a", "left"),
    "b.py": one("b", "right"),
    "left.py": "VALUE = 1",
    "right.py": "VALUE = 1",
  });
  const svc = (...args: string[]) => platform.svc(args, { cwd: dir });
  const workers = async () => {
    const { stdout } = await svc("status", "--json");
    const ids: Record<string, string> = {};
    for (const { name } of JSON.parse(stdout) as { name: string }[]) {
      ids[name] = JSON.parse((await svc("status", name, "--json")).stdout).pods[0].id;
    }
    return ids;
  };
  const call = async (name: string) => {
    const found = (await platform.endpoints()).find((endpoint) => endpoint.name === name)!;
    return (await platform.call(`${found.url}/runsync`, { body: { input: {} } })).json.output;
  };
  const first = await svc("deploy");
  assert.equal(first.code, 0, first.stderr);
  const before = await workers();
  writeFileSync(path.join(dir, "left.py"), "VALUE = 2");
  const second = await svc("deploy");
  assert.equal(second.code, 0, second.stderr);
  assert.match(second.stderr, /~ update +a +code\n.*= unchanged +b +queue/s);
  await eventually(async () => assert.notEqual((await workers()).a, before.a));
  assert.equal((await workers()).b, before.b);
  assert.deepEqual([await call("a"), await call("b")], [2, 1]);
  writeFileSync(path.join(dir, "notes.py"), "nobody imports this");
  assert.match((await svc("deploy")).stdout, /^No changes/);
  writeFileSync(path.join(dir, "data.txt"), "any code may read this");
  const third = await svc("deploy");
  assert.match(third.stderr, /~ update +a +code\n.*~ update +b +code/s);
});

test("A deploy that changes nothing tries again what could not run: what was corrected is seen at once", async (t) => {
  const platform = await startPlatform(t);
  const model = path.join(platform.shared, "model");
  const needs = `open(${JSON.stringify(model)}).close()\n${source("one")}`;
  const dir = project(t, { "worker.py": needs });
  const deploy = () => platform.svc(["deploy"], { cwd: dir });
  const without = await deploy();
  assert.equal(without.code, 1);
  assert.match(without.stderr, /No such file or directory: '\S+model'/);
  writeFileSync(model, "");
  const again = await deploy();
  assert.deepEqual([again.code, again.stdout.split(":")[0]], [0, "No changes"], again.stderr);
  const [endpoint] = await platform.endpoints();
  assert.equal((await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } })).json.output, "one");
});

test("Layers that the platform has lost, or its disk has changed, are sent again by a deploy that changes nothing", {
  skip: embeddedOnly("layers are in the bucket"),
}, async (t) => {
  const platform = await startPlatform(t);
  const dir = project(t, { "worker.py": source("one") });
  const svc = (...args: string[]) => platform.svc(args, { cwd: dir });
  assert.equal((await svc("deploy")).code, 0);
  const artifacts = path.join(platform.dataDir, "artifacts");
  const losses = [
    () => rmSync(artifacts, { recursive: true }),
    () => {
      const files = globSync(path.join(artifacts, "??", "*"));
      assert.ok(files.length > 0);
      for (const file of files) truncateSync(file, Math.floor(statSync(file).size / 2));
    },
  ];
  let running: Pick<typeof platform, "stop" | "call" | "endpoints"> = platform;
  for (const lose of losses) {
    await running.stop();
    lose();
    rmSync(path.join(platform.dataDir, "layers"), { recursive: true });
    running = await platform.restart();
    await eventually(async () =>
      assert.match(
        (await svc("status")).stdout,
        /BLOCKED[\s\S]*The layer \w+ is not stored on this platform\. Deploy again: the upload sends every missing layer\./,
      ),
    );
    const again = await svc("deploy");
    assert.deepEqual([again.code, again.stdout.split(":")[0]], [0, "No changes"], again.stderr);
    const [endpoint] = await running.endpoints();
    assert.equal((await running.call(`${endpoint!.url}/runsync`, { body: { input: {} } })).json.output, "one");
  }
});

test("A deploy that waits for its endpoints goes on over a restart of the platform", async (t) => {
  const platform = await startPlatform(t);
  const [begun, over] = ["begun", "over"].map((name) => path.join(platform.shared, name)) as [string, string];
  const held = `
import os, time
open(${JSON.stringify(begun)}, "w").close()
while not os.path.exists(${JSON.stringify(over)}):
    time.sleep(0.01)
${source("held")}`;
  const cwd = project(t, { "worker.py": held });
  const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key };
  const { said, ended } = startCommand(t, ["deploy"], { cwd, env });
  await eventually(() => assert.ok(existsSync(begun)));
  await eventually(() => assert.match(said.err, /Waiting until the endpoints are ready/));
  await platform.kill();
  await eventually(() => assert.match(said.err, /The platform does not answer, and is asked again/));
  await platform.restart();
  writeFileSync(over, "");
  assert.equal(await ended, 0, said.err);
});
