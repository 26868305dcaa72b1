/** The file of keys, by commands that write it at the same time. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Credentials } from "../../src/cli/credentials.ts";

test("commands that store keys at the same time lose none, also where one was killed before", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "svc-keys-"));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "credentials.json.lock"), "");
  const url = "http://127.0.0.1:1";
  const names = Array.from({ length: 12 }, (_, n) => `/data/${n}`);
  await Promise.all(names.map((name) => new Credentials(folder).saveEmbedded(name, { url, apiKey: name })));
  const stored = new Credentials(folder);
  for (const name of names) assert.equal(await stored.embeddedKey(name), name);
  assert.deepEqual(await readdir(folder), ["credentials.json"]);
  assert.equal((await stat(stored.path)).mode & 0o777, 0o600);
});
