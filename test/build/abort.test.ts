import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { buildProject } from "../../src/build/build.ts";
import type { SvcError } from "../../src/domain/errors.ts";
import { isRunning } from "../../src/lib/start-time.ts";
import { eventually } from "../eventually.ts";
import { PROGRAM } from "../program.ts";
import { temporaryFolder, writeFiles } from "./project.ts";

const WORKER = `from svc import Endpoint\n\n\n@Endpoint(name="w", dependencies=["six"])\ndef w(): ...\n`;

/** A project, and an installer that writes half a package, starts a helper, and never ends by itself. */
function stuckInstall(t: { after(work: () => void): void }) {
  const dir = temporaryFolder(t);
  const uv = path.join(dir, "bin/uv");
  const pids = path.join(dir, "pids");
  writeFiles(dir, {
    "project/w.py": WORKER,
    "bin/uv": `#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --target ] && target=$2; shift; done
echo half > "$target/half.py"; echo half > "$TMPDIR/download"
sleep 600 &
echo "$! $$" > ${pids}.new && mv ${pids}.new ${pids}
echo "Downloading six (11.0KiB)"
wait
`,
  });
  chmodSync(uv, 0o755);
  const env = { ...process.env, PATH: `${path.join(dir, "bin")}:${process.env.PATH}` };
  const left = () => ({
    project: readdirSync(path.join(dir, "project/.svc")),
    layers: existsSync(path.join(dir, "cache/layers")) ? readdirSync(path.join(dir, "cache/layers")) : [],
    running: readFileSync(pids, "utf8")
      .trim()
      .split(" ")
      .map(Number)
      .filter((pid) => isRunning(pid)),
  });
  return { projectDir: path.join(dir, "project"), cacheDir: path.join(dir, "cache"), configDir: dir, env, left };
}

/** Takes minutes to read and to pack. */
const LARGE_BYTES = 11_000_000_000;

const NOTHING = { project: [], layers: [], running: [] };

describe("a build that is stopped while it installs", () => {
  test("leaves no folder, no layer and no process behind", async (t) => {
    const { left, ...options } = stuckInstall(t);
    const stop = new AbortController();
    const onProgress = ({ detail = "" }) => void (/installing six/.test(detail) && stop.abort());
    await assert.rejects(buildProject({ ...options, onProgress, signal: stop.signal }), { name: "AbortError" });
    // A process that was told to end may take a moment.
    await eventually(() => assert.deepEqual(left(), NOTHING));
  });

  test("by Ctrl-C ends with 130 and leaves nothing either", async (t) => {
    const { left, projectDir, cacheDir, env } = stuckInstall(t);
    const child = spawn(process.execPath, [PROGRAM, "build"], {
      cwd: projectDir,
      env: { ...env, SVC_CACHE_DIR: cacheDir },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    for await (const text of child.stderr.setEncoding("utf8")) {
      said += text;
      if (child.killed === false && said.includes("installing six")) child.kill("SIGINT");
    }
    if (child.exitCode === null) await once(child, "exit");
    assert.equal(child.exitCode, 130, said);
    // A process that was told to end may take a moment.
    await eventually(() => assert.deepEqual(left(), NOTHING));
  });

  test("is cleaned up after by the next build when it was killed", async (t) => {
    const { projectDir, cacheDir, configDir } = stuckInstall(t);
    mkdirSync(path.join(projectDir, ".svc/.build/999999999-abcdef/deps"), { recursive: true });
    writeFiles(projectDir, { "w.py": WORKER.replace(', dependencies=["six"]', "") });
    await buildProject({ projectDir, cacheDir, configDir, env: process.env });
    assert.ok(!existsSync(path.join(projectDir, ".svc/.build")));
  });
});

describe("a build of a project with a file that takes minutes to read", () => {
  test("ends at once when it is stopped, and leaves nothing", async (t) => {
    const dir = temporaryFolder(t);
    writeFiles(dir, { "project/w.py": WORKER.replace(', dependencies=["six"]', ""), "project/model.bin": "" });
    truncateSync(path.join(dir, "project/model.bin"), LARGE_BYTES);
    const stop = new AbortController();
    const options = { projectDir: path.join(dir, "project"), cacheDir: path.join(dir, "cache"), configDir: dir };
    const onProgress = ({ step }: { step: string }) => {
      if (step === "sources") setImmediate(() => stop.abort());
    };
    await assert.rejects(buildProject({ ...options, env: process.env, onProgress, signal: stop.signal }), {
      name: "AbortError",
    });
    assert.ok(!existsSync(path.join(dir, "cache/layers")) || readdirSync(path.join(dir, "cache/layers")).length === 0);
  });

  test("is refused before it is read where no machine would unpack it", async (t) => {
    const dir = temporaryFolder(t);
    writeFiles(dir, { "w.py": WORKER, "data/all.bin": "" });
    truncateSync(path.join(dir, "data/all.bin"), 1_000_000_000_000);
    const options = { projectDir: dir, cacheDir: path.join(dir, "cache"), configDir: dir, env: process.env };
    await assert.rejects(buildProject(options), (error: SvcError) => {
      assert.equal(error.code, "ARTIFACT_TOO_LARGE");
      assert.match(
        error.message,
        /1,000,000 MB, and at most 12,582\.9 MB.*Largest files:\n +1,000,000 MB {2}data\/all\.bin/s,
      );
      assert.match(error.help!, /\.svcignore, for example data\/all\.bin; workers can load data from a volume/);
      return true;
    });
  });
});
