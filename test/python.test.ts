/** Runs the Python tests with the interpreter that workers get, one test per file: some at a time, as they mostly wait. */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { runProcess } from "../src/lib/run-process.ts";

const root = path.resolve(import.meta.dirname, "..");

/** A file that hangs says where each of its threads stands, before this suite's own time is up. */
const RUN = `import faulthandler, sys, unittest
faulthandler.dump_traceback_later(240, exit=True)
unittest.main(module=None, argv=["unittest", "-q", *sys.argv[1:]])`;

describe("Python", { concurrency: 3 }, () => {
  for (const file of globSync("python/tests/test_*.py", { cwd: root }).sort()) {
    test(`Python: ${path.basename(file, ".py")}`, async () => {
      const result = await runProcess("python3", ["-c", RUN, file], {
        cwd: root,
        env: { ...process.env, PYTHONPATH: path.join(root, "python/src"), PYTHONDONTWRITEBYTECODE: "1" },
      });
      assert.equal(result.code, 0, result.stderr);
      assert.match(result.stderr, /Ran [1-9]\d* tests?/, "the file runs at least one test");
    });
  }
});
