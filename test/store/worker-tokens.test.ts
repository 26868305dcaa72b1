import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { withWorkerTokens } from "../../src/store/caches.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";

test("A worker that was just made is known by its token without the database; a change or its end is seen at once", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-tokens-"));
  const database = openPlatformDatabase(dir, "normal");
  const plain = await openSqliteStore(database);
  let lookUps = 0;
  const { findByToken } = plain.workers;
  const counting = {
    ...plain.workers,
    findByToken: (hash: string) => {
      lookUps += 1;
      return findByToken(hash);
    },
  };
  const store = withWorkerTokens({ ...plain, workers: counting });
  t.after(async () => {
    await store.close();
    database.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const endpoint = newEndpoint(null);
  await store.endpoints.insert(endpoint);
  const [first, second, third] = [newWorker(endpoint.id), newWorker(endpoint.id), newWorker(endpoint.id)];
  for (const worker of [first, second, third]) await store.workers.insert(worker);
  assert.deepEqual(await store.workers.findByToken(first.tokenHash), first);
  assert.equal(lookUps, 0);
  await store.workers.update(first.id, { state: "READY" });
  assert.equal((await store.workers.findByToken(first.tokenHash))?.state, "READY");
  await store.workers.delete(second.id);
  assert.equal(await store.workers.findByToken(second.tokenHash), undefined);
  // Also when it goes with its endpoint.
  await store.transaction((inner) => inner.endpoints.delete(endpoint.id));
  assert.equal(await store.workers.findByToken(third.tokenHash), undefined);
  assert.equal(await store.workers.findByToken("unknown"), undefined);
  await assert.rejects(store.workers.insert(newWorker("no endpoint", { tokenHash: "t" })), { code: "CONFLICT" });
  assert.equal(await store.workers.findByToken("t"), undefined);
});
