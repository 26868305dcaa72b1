import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { findPython } from "../../src/build/interpreter.ts";
import { LayerCache } from "../../src/build/layer-cache.ts";
import { temporaryFolder, writeFiles } from "./project.ts";

describe("the local interpreter", () => {
  test("behind a shim is asked once, and again when a version file changes", async (t) => {
    const dir = temporaryFolder(t);
    const calls = path.join(dir, "calls");
    const real = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
    writeFiles(dir, { "bin/python3": `#!/bin/sh\necho x >> ${calls}\nexec ${real} "$@"\n`, "project/a.py": "" });
    chmodSync(path.join(dir, "bin", "python3"), 0o755);
    const options = {
      projectDir: path.join(dir, "project"),
      cache: new LayerCache({ cacheDir: path.join(dir, "cache"), configDir: path.join(dir, "config") }),
      env: { ...process.env, PATH: `${path.join(dir, "bin")}:${process.env.PATH}` },
    };
    const count = () => readFileSync(calls, "utf8").trim().split("\n").length;
    const first = await findPython(options);
    assert.match(first.version, /^3\.\d+$/);
    assert.deepEqual(await findPython(options), first);
    assert.equal(count(), 1);
    writeFiles(dir, { "project/.python-version": "3.99\n" });
    await findPython(options);
    assert.equal(count(), 2);
  });

  test("that is missing is a clear error", async () => {
    await assert.rejects(findPython({ env: { PATH: "/nowhere" } }), { code: "TOOL_MISSING", message: /no python3/ });
  });
});
