/** Below a limit of the size of files (`ulimit -f`, `LimitFSIZE=`), which the kernel enforces with a signal that ends the process. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { COMPILED, PROGRAM } from "../program.ts";
import { project, tempDir } from "./platform.ts";

/** svc where no file may grow beyond 512 KiB. */
function limited(t: TestContext, args: readonly string[], cwd = tempDir(t)) {
  const home = tempDir(t);
  return runProcess("sh", ["-c", 'ulimit -f 1024; exec "$@"', "sh", process.execPath, PROGRAM, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: home, CI: "1", NO_COLOR: "1", ...COMPILED },
  });
}

test("neither a platform nor an agent starts whose databases could not grow", async (t) => {
  const folder = path.join(tempDir(t), "data");
  for (const args of [
    ["platform", "start", "--foreground", "--data-dir", folder],
    ["worker", "join", "https://127.0.0.1:1", "--data-dir", folder],
  ]) {
    const { code, stderr } = await limited(t, args);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /No file may have more than 524288 bytes here, a database among them\./);
    assert.match(stderr, /ulimit -f unlimited/);
    assert.doesNotMatch(stderr, /\n\s+at /);
    assert.equal(existsSync(folder), false);
  }
});

test("a build that needs a larger file says so", async (t) => {
  const large = randomBytes(1 << 20).toString("hex");
  const code = 'from svc import Endpoint\n\n@Endpoint(name="hello")\ndef hello():\n    return 1\n';
  const { code: exit, stderr } = await limited(t, ["build"], project(t, { "worker.py": code, "large.txt": large }));
  assert.equal(exit, 1, stderr);
  assert.match(stderr, /The build cannot use .*: no file may become that large here \(ulimit -f\)\./);
  assert.doesNotMatch(stderr, /\n\s+at /);
});
