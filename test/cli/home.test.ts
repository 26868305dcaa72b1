/** Where the environment says nothing of a user's own folder, or nothing that could be one. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { HELLO, temporaryFolder, writeFiles } from "../build/project.ts";

const SVC = path.resolve(import.meta.dirname, "../../bin/svc.ts");
const { PATH = "" } = process.env;

test("a home that is no absolute path puts nothing of svc's own into the project", async (t) => {
  const cwd = temporaryFolder(t);
  writeFiles(cwd, { "w.py": HELLO });
  const own = { PATH, SVC_CONFIG_DIR: temporaryFolder(t), SVC_DATA_DIR: temporaryFolder(t) };
  const cache = temporaryFolder(t);
  const odd: Record<string, string>[] = [
    { HOME: "", SVC_CACHE_DIR: cache },
    { HOME: "home", XDG_CACHE_HOME: "cache", XDG_CONFIG_HOME: "config" },
  ];
  for (const env of odd) {
    const { code, stderr } = await runProcess(process.execPath, [SVC, "platform", "status"], {
      cwd,
      env: { ...own, ...env },
    });
    assert.equal(code, 1, stderr);
    assert.deepEqual(readdirSync(cwd), ["w.py"]);
  }
});

test("a user without an account and without a home gets answers", {
  skip: process.getuid?.() !== 0 && "only root can be another user",
}, async () => {
  const user = (args: readonly string[]) =>
    runProcess("setpriv", ["--reuid", "54321", "--clear-groups", process.execPath, SVC, ...args], { env: { PATH } });
  const { stdout, stderr } = await user(["platform", "status"]);
  assert.match(stdout, /^State +stopped\nData +\/nonexistent\//, stderr);
});

test("a folder of one's own in which none can be made is said, and waited for by nobody", async (t) => {
  const cwd = temporaryFolder(t);
  writeFiles(cwd, { "w.py": HELLO });
  const svc = (args: readonly string[], env: Record<string, string>) =>
    runProcess(process.execPath, [SVC, ...args], { cwd, env: { PATH, ...env } });
  const inHome = await svc(["build"], { HOME: "/proc" });
  assert.match(
    inHome.stderr,
    /error: The build cannot use \/proc\/\S+: no folder can be made there\.\n.*SVC_CACHE_DIR/,
  );
  const there = await svc(["build", "--output", "/proc/x/y.tar.gz"], { HOME: temporaryFolder(t) });
  assert.match(there.stderr, /error: The build cannot use \/proc\/x: no folder can be made there\.\n/);
  assert.deepEqual([inHome.code, there.code], [1, 1]);
});
