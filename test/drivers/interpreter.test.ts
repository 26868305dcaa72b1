import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { Interpreters } from "../../src/drivers/interpreter.ts";
import { runProcess } from "../../src/lib/run-process.ts";

test("workers run what a virtual environment was made with: it may be removed under the platform", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-venv-"));
  t.after(() => rmSync(folder, { recursive: true }));
  await runProcess("python3", ["-m", "venv", "--without-pip", folder]);
  const found = await new Interpreters(path.join(folder, "bin/python3")).default();
  assert.equal(found.path, path.join(folder, "bin/python3"));
  const { stdout } = await runProcess(found.base, ["-I", "-c", "import sys; print(sys.version_info[:2], sys.prefix)"]);
  // Python 3.10 does not know it.
  if (found.version !== "3.10") assert.ok(!stdout.includes(folder), `${found.base}: ${stdout}`);
  const plain = await new Interpreters(found.base).default();
  assert.deepEqual([plain.base, plain.version], [plain.path, found.version]);
});

test("a Python that does not run says why", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-python-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const broken = path.join(folder, "python3");
  const words = "error while loading shared libraries: libpython3.11.so.1.0";
  writeFileSync(broken, `#!/bin/sh\necho "${words}" >&2; exit 127\n`, { mode: 0o755 });
  const fails = (python: string, message: RegExp) =>
    assert.rejects(new Interpreters(python).default(), { code: "TOOL_MISSING", message });
  await fails(broken, /answers to ".*python3": error while loading shared libraries/);
  await fails(path.join(folder, "none"), /answers to ".*none": there is no such program/);
});
