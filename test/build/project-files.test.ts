import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { listProjectFiles } from "../../src/build/project-files.ts";
import { Sources } from "../../src/build/sources.ts";
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

test("what cannot be read is a finding each, and nothing waits for a pipe that stands for a file", (t) => {
  const dir = temporaryFolder(t);
  const at = (file: string) => path.join(dir, file);
  writeFiles(dir, { ".git/HEAD": "", "shop/a.py": "", "shop/sub/b.py": "" });
  execFileSync("mkfifo", [at(".gitignore"), at("shop/.svcignore")]);
  mkdirSync(at("shop/sub/.gitignore"));
  symlinkSync(".svcignore", at("shop/sub/.svcignore"));
  writeFileSync(Buffer.from(at("shop/b\xff.txt"), "latin1"), "");
  mkdirSync(Buffer.from(at("shop/d\xff"), "latin1"));
  const { files, diagnostics } = listProjectFiles(at("shop"));
  assert.deepEqual(
    files.map((file) => file.path),
    ["a.py", "sub/b.py"],
  );
  const rules = "Make it a file that you may read: it says what does not ship.";
  assert.deepEqual(diagnostics.map(({ rule, message, help }) => `${rule}: ${message} ${help}`).sort(), [
    `unreadable: ../.gitignore cannot be read: it is no plain file. ${rules}`,
    `unreadable: .svcignore cannot be read: it is no plain file. ${rules}`,
    "unreadable: b\ufffd.txt cannot be read: its name is not UTF-8. Make it readable for you, or rename it.",
    "unreadable: d\ufffd/ cannot be read: its name is not UTF-8. Make it readable for you, or rename it.",
    `unreadable: sub/.gitignore cannot be read: it is a folder. ${rules}`,
    `unreadable: sub/.svcignore cannot be read: its symbolic links lead in a circle. ${rules}`,
  ]);
});

test("a folder that nobody may look into is a finding", {
  skip: process.getuid?.() === 0 && "root may look into any",
}, (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, { "a.py": "", "sub/b.py": "" });
  for (const folder of [path.join(dir, "sub"), dir]) {
    chmodSync(folder, 0);
    const { diagnostics } = listProjectFiles(dir);
    chmodSync(folder, 0o755);
    const [place, help] = folder === dir ? ["./", ""] : ["sub/", ", or add sub/ to .svcignore"];
    assert.deepEqual(
      diagnostics.map((each) => `${each.message} ${each.help}`),
      [`${place} cannot be read: permission denied. Make it readable for you${help}.`],
    );
  }
});

test("a link that is called as a module is read only where it leads to a file", (t) => {
  const dir = temporaryFolder(t);
  writeFiles(dir, { "real.py": "X = 1\n", "sub/b.txt": "" });
  execFileSync("mkfifo", [path.join(dir, "pipe")]);
  for (const [name, target] of Object.entries({ folder: "sub", pipe: "pipe", file: "real.py" }))
    symlinkSync(target, path.join(dir, `${name}.py`));
  const request = new Sources(dir, listProjectFiles(dir).files).request().toString().split("\0");
  assert.deepEqual(request.slice(0, -1), [
    "file.py",
    "f",
    "X = 1\n",
    "folder.py",
    "f",
    "",
    "pipe.py",
    "f",
    "",
    "real.py",
    "f",
    "X = 1\n",
  ]);
});

test("a folder that does not exist is a clear error", () => {
  assert.throws(() => listProjectFiles("/no/such/folder"), { code: "NO_ENDPOINTS", message: /does not exist/ });
});
