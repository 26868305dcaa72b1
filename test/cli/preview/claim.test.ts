import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { abandonedFolders, claimPreview, ownerLives, removeFolder } from "../../../src/cli/preview/claim.ts";

const CLAIM = new URL("../../../src/cli/preview/claim.ts", import.meta.url).href;

async function cacheDir(t: TestContext): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "svc-claim-"));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test("A preview that runs is nobody's leftover, and one that ends takes its folder along", async (t) => {
  const cache = await cacheDir(t);
  const claim = await claimPreview(cache);
  await writeFile(path.join(claim.folder, "data"), "x");
  assert.equal(await ownerLives(claim.socket), true);
  assert.deepEqual(await abandonedFolders(cache), []);
  await claim.release();
  assert.deepEqual(await readdir(path.join(cache, "previews")), []);
});

test("What a killed preview leaves is found and removed, whatever process has its number now", async (t) => {
  const cache = await cacheDir(t);
  const script = `
    const { claimPreview } = await import(${JSON.stringify(CLAIM)});
    console.log((await claimPreview(process.argv[1])).folder);
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, cache], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const folder = String((await once(child.stdout, "data"))[0]).trim();
  assert.deepEqual(await abandonedFolders(cache), []);
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.deepEqual(await abandonedFolders(cache), [folder]);
  await removeFolder(folder);
  assert.deepEqual(await readdir(path.join(cache, "previews")), []);
});

test("A cache directory whose path is too long for a socket is refused with what to do", async (t) => {
  const cache = path.join(await cacheDir(t), "x".repeat(100));
  await assert.rejects(claimPreview(cache), { code: "DATA_DIRECTORY", help: /SVC_CACHE_DIR/ });
});
