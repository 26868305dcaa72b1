/** Runs the Python tests with the interpreter that workers get, one subtest per file. */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../src/lib/run-process.ts";

const root = path.resolve(import.meta.dirname, "..");

for (const file of globSync("python/tests/test_*.py", { cwd: root }).sort()) {
  test(`Python: ${path.basename(file, ".py")}`, async () => {
    const result = await runProcess("python3", ["-m", "unittest", "-q", file], {
      cwd: root,
      env: { ...process.env, PYTHONPATH: path.join(root, "python/src"), PYTHONDONTWRITEBYTECODE: "1" },
    });
    assert.match(result.stderr, /Ran [1-9]\d* tests?/, "the file runs at least one test");
    assert.equal(result.code, 0, result.stderr);
  });
}
