import assert from "node:assert/strict";
import { renameSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { buildProject } from "../../src/build/build.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { HELLO, temporaryFolder, writeFiles } from "./project.ts";

const SVC = path.resolve(import.meta.dirname, "../../bin/svc.ts");

test("a project folder that goes away during its build is told, and is no defect", async (t) => {
  const dir = temporaryFolder(t);
  const projectDir = path.join(dir, "project");
  writeFiles(projectDir, { "w.py": HELLO });
  const onScan = async () => renameSync(projectDir, `${projectDir}-2`);
  const options = { projectDir, cacheDir: path.join(dir, "cache"), configDir: dir, env: process.env, onScan };
  await assert.rejects(buildProject(options), {
    code: "BUILD_FAILED",
    message: `The project folder ${projectDir} does not exist any more.`,
  });
});

describe("a disk that cannot be written", () => {
  test("is a clear error: the cache folder, with the variable that moves it", async (t) => {
    const projectDir = temporaryFolder(t);
    const configDir = temporaryFolder(t);
    writeFiles(projectDir, { "w.py": HELLO });
    await assert.rejects(buildProject({ projectDir, cacheDir: "/dev/null/cache", configDir, env: process.env }), {
      code: "BUILD_FAILED",
      message: /\/dev\/null\/cache.*a part of its path is a file/,
      help: /SVC_CACHE_DIR/,
    });
  });

  test("is a clear error: the project's .svc", async (t) => {
    const dir = temporaryFolder(t);
    writeFiles(dir, { "project/w.py": HELLO, "project/.svc": "a file" });
    const options = {
      projectDir: path.join(dir, "project"),
      cacheDir: path.join(dir, "cache"),
      configDir: dir,
      env: process.env,
    };
    await assert.rejects(buildProject(options), { code: "BUILD_FAILED", message: /\.svc/ });
  });

  test("does not keep svc from starting: it goes without a cache of compiled code", async () => {
    const env = { ...process.env, NODE_COMPILE_CACHE: "/dev/null/a", SVC_CACHE_DIR: "/dev/null/b" };
    const { code, stdout, stderr } = await runProcess(process.execPath, [SVC, "build", "--help"], { env });
    assert.equal(code, 0);
    assert.match(stdout, /svc build/);
    assert.equal(stderr, "");
  });
});
