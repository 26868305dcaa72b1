import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { SvcError } from "../../src/domain/errors.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { newJob } from "../conformance/queue.ts";
import { newApp } from "../conformance/store.ts";
import { openTestStore } from "./open-store.ts";

let dir: string;
before(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-data-"));
});
after(() => rmSync(dir, { recursive: true }));

const MODULE = join(import.meta.dirname, "../../src/store/platform-database.ts");

function dataDirectoryError(pattern: RegExp) {
  return (error: unknown) =>
    error instanceof SvcError && error.code === "DATA_DIRECTORY" && pattern.test(error.message) && error.help !== "";
}

test("a second platform on the same data directory is refused with what to do", () => {
  const first = openPlatformDatabase(join(dir, "shared"), "normal");
  const script = `
    const { openPlatformDatabase } = await import(${JSON.stringify(MODULE)});
    try { openPlatformDatabase(${JSON.stringify(join(dir, "shared"))}, "normal"); console.log("opened"); }
    catch (error) { console.log(error.code, error.message, error.help); }`;
  const said = () => execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  assert.match(said(), /^DATA_DIRECTORY Another platform is running .*SVC_DATA_DIR/);
  first.close();
  assert.match(said(), /^opened/);
});

test("a data directory that cannot be made is explained", () => {
  writeFileSync(join(dir, "file"), "");
  assert.throws(() => openPlatformDatabase(join(dir, "file", "data"), "normal"), dataDirectoryError(/cannot be used/));
});

test("a damaged database file is explained", () => {
  const damaged = mkdtempSync(join(dir, "damaged-"));
  writeFileSync(join(damaged, "platform.db"), "this is no database, and long enough to be seen as one".repeat(100));
  assert.throws(() => openPlatformDatabase(damaged, "normal"), dataDirectoryError(/not a database/));
});

test("the queue waits while a transaction of the store is open, and is not part of it", async () => {
  const under = await openTestStore();
  const queue = await openSqliteQueue({
    database: under.database,
    blobDir: join(under.dir, "blobs"),
    clock: Date.now,
  });
  const job = newJob("e");
  const app = newApp();
  let accepted = false;
  const enqueued = Promise.withResolvers<void>();
  const undone = under.store.transaction(async (inner) => {
    await inner.apps.insert(app);
    void queue.enqueue(job).then(() => {
      accepted = true;
      enqueued.resolve();
    });
    // Long enough for the queue to try: it commits at the end of a turn.
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(accepted, false);
    throw new Error("undo");
  });
  await assert.rejects(undone, /undo/);
  await enqueued.promise;
  await queue.close();
  await under.reopen();
  const again = await openSqliteQueue({
    database: under.database,
    blobDir: join(under.dir, "blobs"),
    clock: Date.now,
  });
  assert.equal((await again.find(job.id))?.state, "IN_QUEUE");
  assert.equal(await under.store.apps.findByName(app.name), undefined);
  await again.close();
  await under.close();
});
