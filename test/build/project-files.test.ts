import assert from "node:assert/strict";
import { mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { listProjectFiles } from "../../src/build/project-files.ts";
import { temporaryFolder, writeFiles } from "./project.ts";

function shipped(projectDir: string): string[] {
  return listProjectFiles(projectDir).files.map((file) => file.path);
}

test("what version control ignores does not ship, with nested rule files and exceptions", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, {
    ".gitignore": "*.log\n/build/\n!keep.log\n",
    "a.log": "",
    "keep.log": "",
    "build/x.py": "",
    "pkg/build/y.py": "",
    "pkg/.gitignore": "secret.py\n!a.log\n",
    "pkg/secret.py": "",
    "pkg/a.log": "",
  });
  assert.deepEqual(shipped(dir), ["keep.log", "pkg/a.log", "pkg/build/y.py"]);
});

test(".svcignore may bring back what .gitignore drops, and drop more", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, {
    ".gitignore": "*.bin\n",
    ".svcignore": "!model.bin\ndocs/\n",
    "model.bin": "",
    "x.bin": "",
    "docs/a.md": "",
  });
  assert.deepEqual(shipped(dir), ["model.bin"]);
});

test("environment files, version control, caches and virtual environments never ship, whatever the rules say", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, {
    ".svcignore": "!.env\n!.git\n!node_modules\n",
    ".env": "",
    ".env.production": "",
    ".git/config": "",
    ".svc/artifact.tar.gz": "",
    ".platform/resources.pkl": "",
    "node_modules/a/index.js": "",
    "__pycache__/a.pyc": "",
    "my-env/pyvenv.cfg": "",
    "my-env/lib/a.py": "",
    ".netrc": "",
    "env/real.py": "",
  });
  assert.deepEqual(shipped(dir), ["env/real.py"]);
});

test("what svc itself keeps in a folder of the project does not ship, its keys among it", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, {
    "data/platform.db": "",
    "data/version": "",
    "data/secret.key": "",
    "data/layers/a/src/worker.py": "",
    "shared/launcher.json": "",
    "shared/version": "",
    "agent/agent.lock": "",
    "config/credentials.json": "",
    "config/cache.key": "",
    "model/version": "",
    "db/platform.db": "",
    "worker.py": "",
  });
  assert.deepEqual(shipped(dir), ["db/platform.db", "model/version", "worker.py"]);
  assert.deepEqual(
    listProjectFiles(dir).dropped.map(({ path, rule }) => `${path}: ${rule}`),
    [
      "agent/: a machine's data directory (built in)",
      "config/: svc's own keys (built in)",
      "data/: a platform's data directory (built in)",
      "shared/: a platform's data directory (built in)",
    ],
  );
});

test("rules of the repository above the project count, unless they drop the whole project", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, {
    ".git/HEAD": "",
    ".gitignore": "*.tmp\nservices/b/gen/\n",
    "services/a/x.tmp": "",
    "services/a/x.py": "",
    "services/b/gen/y.py": "",
    "services/b/y.py": "",
  });
  assert.deepEqual(shipped(path.join(dir, "services", "a")), ["x.py"]);
  assert.deepEqual(shipped(path.join(dir, "services", "b")), ["y.py"]);
  writeFiles(dir, { ".gitignore": "services/\n*.tmp\n" });
  assert.deepEqual(shipped(path.join(dir, "services", "a")), ["x.py", "x.tmp"]);
});

test("each dropped file is listed with its rule, a folder once", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, { ".gitignore": "old/\n", "old/a.py": "", "old/b.py": "", ".env": "" });
  const { dropped } = listProjectFiles(dir);
  assert.deepEqual(dropped, [
    { path: ".env", rule: ".env (built in)" },
    { path: ".gitignore", rule: ".gitignore (built in)" },
    { path: "old/", rule: "old/ (.gitignore)" },
  ]);
});

test("symbolic links ship when they stay inside the project, and are a finding otherwise", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, { "data/real.txt": "x", "a.py": "" });
  mkdirSync(path.join(dir, "sub"));
  symlinkSync("../data/real.txt", path.join(dir, "sub", "link.txt"));
  symlinkSync(path.join(dir, "data"), path.join(dir, "absolute"));
  symlinkSync("/etc/passwd", path.join(dir, "outside"));
  symlinkSync("nowhere", path.join(dir, "broken"));
  const { files, diagnostics } = listProjectFiles(dir);
  assert.deepEqual(
    files.filter((file) => file.linkTo !== undefined).map((file) => [file.path, file.linkTo]),
    [
      ["absolute", "data"],
      ["sub/link.txt", "../data/real.txt"],
    ],
  );
  assert.deepEqual(diagnostics.map((each) => `${each.rule} ${each.file}`).sort(), [
    "link-outside broken",
    "link-outside outside",
  ]);
});

test("a folder that does not exist is a clear error", () => {
  assert.throws(() => listProjectFiles("/no/such/folder"), { code: "NO_ENDPOINTS", message: /does not exist/ });
});
