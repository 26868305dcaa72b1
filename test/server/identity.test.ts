/** What others know a platform by is the same wherever it runs next; real PostgreSQL. */
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { readConfig } from "../../src/server/config.ts";
import { openState } from "../../src/server/state.ts";
import { tempDir } from "../e2e/platform.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const FILES = ["webhook-secret", "worker-link.pem"];

describe("A platform in PostgreSQL that runs on another machine next", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  /** Starts and ends on the directory. */
  async function opened(dataDir: string, env: Record<string, string> = {}): Promise<string[]> {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const settings = { SVC_DATABASE_URL: server.url, SVC_WORKER_LISTEN: "tls://127.0.0.1:0", ...env };
    const failed = (error: unknown) => assert.fail(error as Error);
    const said: string[] = [];
    const log = { info: (line: string) => void said.push(line), error: (line: string) => void said.push(line) };
    const config = readConfig({ SVC_DATA_DIR: dataDir, ...settings });
    const state = await openState({ config, log, lost: failed, full: failed });
    await state.close();
    return said;
  }
  const files = (dataDir: string) => FILES.map((name) => readFileSync(join(dataDir, name), "utf8"));

  test("has the same secret of webhooks and the same certificate, also when its own files are gone or others", async (t) => {
    const [one, two] = [join(tempDir(t), "one"), join(tempDir(t), "two")];
    await opened(one);
    const first = files(one);
    mkdirSync(two, { mode: 0o700 });
    copyFileSync(join(one, "secret.key"), join(two, "secret.key"));
    writeFileSync(join(two, "webhook-secret"), "whsec_other\n");
    await opened(two);
    assert.deepEqual(files(two), first);
    for (const name of FILES) assert.equal(statSync(join(two, name)).mode & 0o777, 0o600);
    rmSync(join(one, "webhook-secret"));
    await opened(one);
    assert.deepEqual(files(one), first);

    const strange = join(tempDir(t), "three");
    const refused = {
      code: "DATA_DIRECTORY",
      message: /keys of this data directory are not those/,
      help: /secret\.key/,
    };
    await assert.rejects(opened(strange), refused);
    await opened(one);
    assert.deepEqual(files(one), first, "nothing was changed");

    // A new key opens it too, and then alone.
    const keys = join(tempDir(t), "keys");
    const old = readFileSync(join(one, "secret.key"), "utf8");
    const fresh = `${Buffer.alloc(32, 7).toString("base64")}\n`;
    writeFileSync(keys, fresh + old);
    const said = await opened(two, { SVC_SECRET_KEY_FILE: keys });
    assert.match(said.join("\n"), /nothing needs [\da-f]{8}\./);
    writeFileSync(keys, fresh);
    rmSync(join(two, "secret.key"));
    await opened(two, { SVC_SECRET_KEY_FILE: keys });
    assert.deepEqual(files(two), first);
    await assert.rejects(opened(one), refused);
  });
});
