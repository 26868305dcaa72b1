/** What a platform keeps, its keys among it, goes into no build: also where it lies in the project's folder. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { listProjectFiles } from "../../src/build/project-files.ts";
import { startPlatform } from "../e2e/platform.ts";

test("a data directory does not ship, whether its platform runs or not", async (t) => {
  const platform = await startPlatform(t);
  const below = `${path.basename(platform.dataDir)}/`;
  const shipped = () =>
    listProjectFiles(path.dirname(platform.dataDir)).files.filter((file) => file.path.startsWith(below));
  assert.ok(existsSync(path.join(platform.dataDir, "secret.key")));
  assert.deepEqual(shipped(), []);
  await platform.stop();
  assert.deepEqual(shipped(), []);
});
