/** The file of keys, by commands that write it at the same time. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Credentials } from "../../src/cli/credentials.ts";
import { FileHeld, withFileLock } from "../../src/lib/file-lock.ts";

const url = "http://127.0.0.1:1";

async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "svc-keys-"));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

const HOLDS = `
import { withFileLock } from ${JSON.stringify(new URL("../../src/lib/file-lock.ts", import.meta.url))};
await withFileLock(process.argv[1], 1_000, async () => {
  console.log("has it");
  await new Promise((resolve) => setTimeout(resolve, 600_000));
});
`;

test("commands that store keys at the same time lose none", async (t) => {
  const folder = await newFolder(t);
  const names = Array.from({ length: 12 }, (_, n) => `/data/${n}`);
  await Promise.all(names.map((name) => new Credentials(folder).saveEmbedded(name, { url, apiKey: name })));
  const stored = new Credentials(folder);
  for (const name of names) assert.equal(await stored.embeddedKey(name), name);
  assert.deepEqual(await readdir(folder), ["credentials.json", "credentials.lock"]);
  for (const file of await readdir(folder)) assert.equal((await stat(join(folder, file))).mode & 0o777, 0o600);
});

test("a command that stands still in the middle of it is waited for, and one that is killed there is in nobody's way", async (t) => {
  const folder = await newFolder(t);
  const lock = join(folder, "credentials.lock");
  const child = spawn(process.execPath, ["--input-type=module", "-e", HOLDS, lock], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  await once(child.stdout, "data");
  const stored = new Credentials(folder);
  let isSaved = false;
  const saved = stored.saveLogin({ url, apiKey: "key" }).then(() => {
    isSaved = true;
  });
  await assert.rejects(
    withFileLock(lock, 100, async () => {}),
    FileHeld,
  );
  assert.equal(await stored.login(), undefined);
  assert.equal(isSaved, false);
  child.kill("SIGKILL");
  await saved;
  assert.equal((await stored.login())?.apiKey, "key");
});
