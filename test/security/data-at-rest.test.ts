/** What lies on the platform's disk: closed to other users, and no value of a variable in clear. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { CONTAINER_DEFAULT } from "../../src/domain/container.ts";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import { project, startPlatform, tempDir } from "../e2e/platform.ts";
import { startPlatformProcess } from "../e2e/platform-process.ts";

const VALUE = "value-of-a-variable-4711";

function filesWith(dir: string, text: string): string[] {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(text));
}

test("a value of env= reaches its worker and stands nowhere in the data directory", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, {
    "main.py": `import os
from svc import Endpoint

@Endpoint(name="hello", workers=(0, 1), env={"TOKEN": "${VALUE}"})
def hello() -> int:
    return len(os.environ["TOKEN"])
`,
  });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const [endpoint] = await platform.endpoints();
  const answer = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  assert.equal(answer.json.output, VALUE.length, answer.text);
  const layers = (file: string) => /\/(layers|artifacts)\//.test(file); // the user's own code, where it says so
  assert.deepEqual(
    filesWith(platform.dataDir, VALUE).filter((file) => !layers(file)),
    [],
  );
  await platform.kill();
  const again = await platform.restart();
  assert.equal((await again.call(`/v2/${endpoint!.id}/runsync`, { body: { input: {} } })).json.output, VALUE.length);
});

test("values that an earlier version wrote in clear are sealed at the next start, old bytes and all", async (t) => {
  const dir = tempDir(t);
  const open = (seal?: SealedText) => {
    const database = openPlatformDatabase(dir, "normal");
    return { database, store: openSqliteStore(database, seal) };
  };
  const seal = new SealedText(randomBytes(SEAL_KEY_BYTES));
  const before = open();
  const template = {
    id: "t",
    name: "t",
    imageName: "",
    env: { MODE: VALUE, OTHER: "x" },
    container: CONTAINER_DEFAULT,
    createdAt: 1,
    updatedAt: 1,
  };
  await (await before.store).templates.save(template);
  before.database.close();
  assert.equal(filesWith(dir, VALUE).length, 1);

  const after = open(seal);
  assert.deepEqual((await (await after.store).templates.find("t"))!.env, template.env);
  after.database.close();
  assert.deepEqual(filesWith(dir, VALUE), []);

  const other = open(new SealedText(randomBytes(SEAL_KEY_BYTES)));
  t.after(() => other.database.close());
  const unreadable = (await (await other.store).templates.find("t"))!.env as unknown;
  assert.deepEqual(
    unreadable,
    { MODE: { secret: "MODE" }, OTHER: { secret: "OTHER" } },
    "another key opens nothing, and nothing breaks",
  );
});

test("a data directory that others can look into is closed to them", { timeout: 300_000 }, async (t) => {
  const dataDir = path.join(tempDir(t), "data");
  mkdirSync(dataDir);
  chmodSync(dataDir, 0o755);
  const platform = await startPlatformProcess({
    dataDir,
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    port: "0",
  });
  t.after(() => platform.end("SIGQUIT"));
  assert.equal(statSync(dataDir).mode & 0o777, 0o700);
  for (const file of ["platform.db", "platform.db-wal", "secret.key"]) {
    assert.equal(statSync(path.join(dataDir, file)).mode & 0o077, 0, file);
  }
});
