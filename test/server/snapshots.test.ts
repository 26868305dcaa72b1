import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Snapshots, snapshotFolder } from "../../src/server/snapshots.ts";
import { eventually } from "../eventually.ts";

test("A copy that is wanted while the database is being written to is made when it is not", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-snapshots-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const database = new DatabaseSync(path.join(dir, "platform.db"));
  t.after(() => database.close());
  database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
  const logged: unknown[] = [];
  const log = { error: (...said: unknown[]) => logged.push(said) } as never;
  const snapshots = new Snapshots(dir, { "platform.db": database }, log);
  const folder = snapshotFolder(dir);
  database.exec("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)");
  writeFileSync(path.join(folder, "one.wanted"), "");
  snapshots.make();
  // It is begun, and cannot be.
  await eventually(() => assert.ok(existsSync(path.join(folder, "one"))));
  for (let turn = 0; turn < 100; turn++) await setImmediate();
  database.exec("COMMIT");
  await eventually(() => assert.ok(existsSync(path.join(folder, "one.done"))));
  assert.equal(readFileSync(path.join(folder, "one.done"), "utf8"), '{"error":""}');
  assert.deepEqual(logged, []);
  const copy = new DatabaseSync(path.join(folder, "one/platform.db"), { readOnly: true });
  assert.equal(copy.prepare("SELECT count(*) AS n FROM t").get()!.n, 1);
  copy.close();
  await snapshots.close();
});
