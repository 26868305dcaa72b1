import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { BuildProblems } from "../../src/build/diagnostics.ts";
import { ProjectCode, takeSnapshot } from "../../src/dev/code.ts";
import { watchProject } from "../../src/dev/watch.ts";
import { project, tempDir } from "../e2e/platform.ts";

const WORKER = 'from svc import Endpoint\n@Endpoint(name="a")\ndef a(): return 1\n';

async function start(t: TestContext, files: Record<string, string>, reload = true) {
  const projectDir = project(t, files);
  const events: string[] = [];
  const code = new ProjectCode({
    projectDir,
    env: { PATH: process.env.PATH },
    cacheDir: path.join(tempDir(t), "cache"),
    configDir: path.join(tempDir(t), "config"),
    python: undefined,
    reload,
    onProgress: () => {},
    onBuilt: (build) => events.push(Object.keys(build.manifest.resources).join(" ")),
    onFailed: (error) => {
      assert.ok(error instanceof BuildProblems, String(error));
      events.push(error.diagnostics.map(({ rule }) => rule).join(" "));
    },
    onGone: () => events.push("gone"),
  });
  t.after(() => code.close());
  await code.start();
  const write = (file: string, text: string) => writeFileSync(path.join(projectDir, file), text);
  return { code, events, write, projectDir };
}

test("every kind of change is seen by the next look: contents, new files and folders, renames, removals, ignore rules", async (t) => {
  const dir = project(t, { "a.py": "1", "sub/b.py": "2", ".gitignore": "*.log\n" });
  const at = (file: string) => path.join(dir, file);
  const changes: [what: string, change: () => void][] = [
    ["contents", () => writeFileSync(at("a.py"), "22")],
    ["a new file", () => writeFileSync(at("sub/c.py"), "3")],
    ["a new folder", () => mkdirSync(at("deep"))],
    ["a file in it", () => writeFileSync(at("deep/d.txt"), "4")],
    ["a rename", () => renameSync(at("sub/c.py"), at("sub/e.py"))],
    ["a removal", () => rmSync(at("deep"), { recursive: true })],
    ["a rule", () => writeFileSync(at(".gitignore"), "*.log\n*.txt\n")],
  ];
  for (const [what, change] of changes) {
    const snapshot = takeSnapshot(dir);
    assert.ok(snapshot.isCurrent(), what);
    change();
    assert.ok(!snapshot.isCurrent(), what);
  }
  mkdirSync(at("build.log"));
  const snapshot = takeSnapshot(dir);
  writeFileSync(at("build.log/x"), "left out");
  assert.ok(snapshot.isCurrent(), "what the rules leave out does not count");
  assert.ok(snapshot.isLeftOut("build.log") && snapshot.isLeftOut("build.log/x") && !snapshot.isLeftOut("a.py"));
});

test("calls that come while a build runs share it, and get what stood in the files when they came", async (t) => {
  const { code, events, write } = await start(t, { "a.py": WORKER });
  write("b.py", WORKER.replaceAll('"a"', '"b"'));
  const first = [code.latest(), code.latest()];
  write("c.py", WORKER.replaceAll('"a"', '"c"'));
  const last = await code.latest();
  assert.deepEqual(Object.keys(last.manifest.resources), ["a", "b", "c"]);
  await Promise.all(first);
  assert.ok(events.length <= 2, events.join(", "));
  assert.equal(events.at(-1), "a b c");
});

test("what does not build changes nothing and is told once, by Python's own judgement; mending it is told too", async (t) => {
  const { code, events, write } = await start(t, { "a.py": WORKER });
  const { sourceLayer } = code.current.manifest;
  // The grammar has no objection to the second; Python has.
  for (const broken of ["def (:\n", 'def a():\nreturn "not indented"\n']) {
    write("a.py", `${WORKER}${broken}`);
    for (let call = 0; call < 3; call++) assert.equal((await code.latest()).manifest.sourceLayer, sourceLayer);
    assert.deepEqual(events.splice(0), ["syntax-error"]);
  }
  write("a.py", WORKER);
  assert.equal((await code.latest()).manifest.sourceLayer, sourceLayer);
  assert.deepEqual(events, ["a"]);
});

test("a file of rules that cannot be read is told once, and rules again when it can be", async (t) => {
  const { code, events, projectDir } = await start(t, { "a.py": WORKER });
  const rules = path.join(projectDir, ".svcignore");
  symlinkSync(".svcignore", rules);
  for (let call = 0; call < 3; call++) await code.latest();
  rmSync(rules);
  await code.latest();
  assert.deepEqual(events, ["unreadable", "a"]);
});

test("links to the folders that they stand in are watched, not followed without end", async (t) => {
  const dir = project(t, { "a.py": WORKER, "sub/b.py": "" });
  for (const name of ["one", "two"]) symlinkSync(".", path.join(dir, "sub", name));
  const { promise, resolve } = Promise.withResolvers<void>();
  let saves = 0;
  const looked = new Set<string>();
  const watched = watchProject(
    dir,
    (relative) => {
      looked.add(relative);
      return false;
    },
    () => saves > 1 && resolve(),
  );
  t.after(() => watched.close());
  // What is there when it begins to watch is no change.
  const saving = setInterval(() => writeFileSync(path.join(dir, "sub/b.py"), `X = ${saves++}\n`), 200);
  t.after(() => clearInterval(saving));
  await promise;
  assert.deepEqual([...looked].sort(), ["a.py", "sub", "sub/b.py", "sub/one", "sub/two"]);
});

test("a change that changes nothing in the build is no new build", async (t) => {
  const { code, events, write } = await start(t, { "a.py": WORKER });
  write("a.py", WORKER);
  await code.latest();
  assert.deepEqual(events, []);
});
