/** `svc upgrade` of a platform whose records are in PostgreSQL. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { VERSION } from "../../src/domain/version.ts";
import { dataVersion } from "../../src/server/data-version.ts";
import { homeOf } from "../../src/server/state.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { svc, tempDir } from "../e2e/platform.ts";

test("An upgrade says that the database is not in its backup, changes no table in the data directory, and tells both ways back", async (t) => {
  const dataDir = path.join(tempDir(t), "data");
  openPlatformDatabase(dataDir, "normal").close();
  homeOf(dataDir, "PostgreSQL db.test/svc");
  writeFileSync(path.join(dataDir, "version"), "0.0.9\n");
  const upgrade = () => svc(["upgrade", "--force", "--data-dir", dataDir]);
  const { code, stdout, stderr } = await upgrade();
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^Steps {5}taken in the database when the platform starts$/m);
  assert.match(
    stdout,
    /^Database {2}PostgreSQL db\.test\/svc: it is not in the backup; go on when it has one of its own$/m,
  );
  assert.match(stdout, /svc platform restore .*\n {2}bring PostgreSQL db\.test\/svc back to before/);
  assert.equal(dataVersion(dataDir), VERSION);
  const database = openPlatformDatabase(dataDir, "normal");
  const { n } = database.connection.prepare("SELECT count(*) AS n FROM sqlite_master").get() as { n: number };
  database.close();
  assert.equal(n, 0);
  assert.match((await upgrade()).stdout, /^Nothing to upgrade: the data are of /);
});
