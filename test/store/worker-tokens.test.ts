import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { withWorkerTokens } from "../../src/store/caches.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import type { Worker } from "../../src/store/store.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";

/** A real store, and an endpoint in it. */
async function openStore(t: TestContext) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-tokens-"));
  const database = openPlatformDatabase(dir, "normal");
  const plain = await openSqliteStore(database);
  t.after(async () => {
    await plain.close();
    database.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const endpoint = newEndpoint(null);
  await plain.endpoints.insert(endpoint);
  return { plain, endpoint };
}

test("A worker that was just made is known by its token without the database; a change or its end is seen at once", async (t) => {
  const { plain, endpoint } = await openStore(t);
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

test("A worker that says who it is, or ends, before its row is written is known as soon as that is", async (t) => {
  const { plain, endpoint } = await openStore(t);
  const gate = Promise.withResolvers<void>();
  const slow = { ...plain.workers, insert: (worker: Worker) => gate.promise.then(() => plain.workers.insert(worker)) };
  const store = withWorkerTokens({ ...plain, workers: slow });
  const [worker, never] = [newWorker(endpoint.id), newWorker("no endpoint", { tokenHash: "t" })];
  const written = store.workers.insert(worker);
  const refused = assert.rejects(store.workers.insert(never), { code: "CONFLICT" });
  const found = [
    store.workers.findByToken(worker.tokenHash),
    store.workers.find(worker.id),
    store.workers.findByToken(never.tokenHash),
    store.workers.find(never.id),
  ];
  await setImmediate();
  gate.resolve();
  await Promise.all([written, refused]);
  assert.deepEqual(await Promise.all(found), [worker, worker, undefined, undefined]);
});
