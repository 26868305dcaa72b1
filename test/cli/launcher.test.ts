import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { VERSION } from "../../src/domain/version.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/svc", import.meta.url));
const execute = promisify(execFile);
const directory = await mkdtemp(join(tmpdir(), "svc-launcher-"));
after(() => rm(directory, { recursive: true, force: true }));

describe("bin/svc", () => {
  test("runs the clone's own Node, also through symbolic links from elsewhere", async () => {
    await symlink(LAUNCHER, join(directory, "absolute"));
    await symlink("absolute", join(directory, "relative"));
    for (const file of [LAUNCHER, join(directory, "absolute"), join(directory, "relative")]) {
      assert.equal((await execute(file, ["--version"], { cwd: "/" })).stdout, `${VERSION}\n`);
    }
  });

  test("without installed packages it says to run npm ci", async () => {
    await mkdir(join(directory, "clone", "bin"), { recursive: true });
    await cp(LAUNCHER, join(directory, "clone", "bin", "svc"));
    await assert.rejects(
      execute(join(directory, "clone", "bin", "svc"), []),
      (error: { code: number; stderr: string }) => {
        assert.equal(error.code, 1);
        assert.match(error.stderr, /Run npm ci in .*clone\./);
        return true;
      },
    );
  });
});
