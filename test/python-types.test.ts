/** What needs packages from the index: the type checker over the SDK and a sample project, and values of other packages. */
import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { pythonEnvironment } from "../bench/processes.ts";
import { runProcess } from "../src/lib/run-process.ts";

const root = path.resolve(import.meta.dirname, "..");

test("arrays and models keep their types between Python peers", { timeout: 300_000 }, async (t) => {
  let bin: string;
  try {
    bin = await pythonEnvironment("peers", ["numpy", "pydantic"]);
  } catch {
    return t.skip("numpy and pydantic are not installed here and the package index cannot be reached");
  }
  const env = { ...process.env, PYTHONPATH: path.join(root, "python/src"), PYTHONDONTWRITEBYTECODE: "1" };
  const args = ["-m", "unittest", "-v", "python/tests/test_tagged.py"];
  const { code, stderr } = await runProcess(path.join(bin, "python"), args, { cwd: root, env });
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /skipped/);
});

test("the SDK is typed, and a call has the type of the function it calls", { timeout: 300_000 }, async (t) => {
  let bin: string;
  try {
    bin = await pythonEnvironment("mypy", ["mypy>=1.15", "typing_extensions"]);
  } catch {
    return t.skip("mypy is not installed here and the package index cannot be reached");
  }
  const config = path.join(root, "python/pyproject.toml");
  const cache = path.join(bin, "../types");
  const sample = path.join(root, "python/tests/typed/sample.py");
  for (const what of [["--package", "svc"], ["--package", "scan"], [sample]]) {
    const args = ["--config-file", config, "--cache-dir", cache, ...what];
    const env = {
      ...process.env,
      MYPYPATH: [path.join(root, "python/src"), path.join(root, "python")].join(path.delimiter),
    };
    const { code, stdout, stderr } = await runProcess(path.join(bin, "mypy"), args, { cwd: bin, env });
    assert.equal(code, 0, stdout + stderr);
  }
});
