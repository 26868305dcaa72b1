import assert from "node:assert/strict";
import { existsSync, globSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { type FileLimits, LIMITS, runFile } from "./run-file.ts";

async function run(fixture: string, limits: Partial<FileLimits> = {}) {
  const file = path.join(import.meta.dirname, "fixtures", `${fixture}.ts`);
  const folder = mkdtempSync(path.join(tmpdir(), "h-"));
  const result = await runFile(file, folder, { ...LIMITS, leaveMaxMs: 0, ...limits });
  assert.equal(existsSync(folder), false, "its folder goes too");
  return result;
}

/** How many processes have the word in their command line. */
function running(word: string): number {
  return globSync("/proc/[0-9]*/cmdline").filter((file) => {
    try {
      const said = readFileSync(file, "utf8");
      return said.includes(word) && !said.includes("run-file");
    } catch {
      return false; // It ended in this moment.
    }
  }).length;
}

test("every test of a file is counted once, suites are not, a skip says why", async () => {
  const { passed, failures, skipped } = await run("mixed");
  assert.equal(passed, 1);
  assert.deepEqual(skipped, [{ name: "is skipped", reason: "there is no Docker here" }]);
  assert.deepEqual(
    failures.map(({ name }) => name),
    ["fails", "takes too long"],
  );
  assert.match(failures[0]!.text, /1 !== 2/);
});

test("a file that hangs is killed at its limit with all it started, and says where it hung and what it logged", async () => {
  const { passed, failures } = await run("hangs", { fileMaxMs: 4_000 });
  assert.equal(passed, 1);
  assert.equal(failures.length, 1);
  assert.equal(failures[0]!.name, 'was killed after 4 s, in: "waits for ever"');
  assert.match(failures[0]!.text, /svc-fixture-hangs[\s\S]*printed before the hang[\s\S]*the log says why/);
  assert.equal(running("svc-fixture-hangs"), 0);
});

test("a process that a file leaves behind is named as its failure and killed, also one that left its session", async () => {
  const { passed, failures } = await run("leaves-process");
  assert.equal(passed, 1);
  assert.deepEqual(
    failures.map(({ name }) => name),
    ["left something behind"],
  );
  assert.match(failures[0]!.text, /^the process \d+: python3 [\s\S]*svc-fixture-daemon$/);
  assert.equal(running("svc-fixture-daemon"), 0);
});

test("folders and mounts that a file leaves behind are named as its failure and removed", async () => {
  const { failures } = await run("leaves-folder");
  assert.match(failures[0]!.text, /the folder \/\S*\/forgotten-\S+ with \S*closed, /);
  assert.equal(failures[0]!.text.includes("the mount "), process.getuid!() === 0);
  assert.doesNotMatch(readFileSync("/proc/self/mounts", "utf8"), /\/forgotten-/);
});

test("a test that fails prints the log of its platform, and the file ends though nobody stopped that", async () => {
  const { passed, failures } = await run("fails-with-platform", { endMaxMs: 500 });
  assert.equal(passed, 1);
  assert.equal(failures[0]!.name, "fails with a platform under way");
  assert.match(failures[0]!.text, /what the test says[\s\S]*platform-\d+-1\.log:[\s\S]*listen/);
  assert.equal(failures[1]!.name, "did not end within 0.5 s of its last test");
  assert.match(failures[1]!.text, /the process \d+: .*svc\.m?[tj]s platform start/);
});

test("a file that cannot be loaded is a failure with its message", async () => {
  const { failures } = await run("cannot-load");
  assert.match(failures[0]!.text, /what-is-not-there/);
});
