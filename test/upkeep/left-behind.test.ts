import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { removal } from "../../src/domain/removal.ts";
import { openHistory } from "../../src/history/history-database.ts";
import { SqliteSeries } from "../../src/history/sqlite-series.ts";
import { LogFiles } from "../../src/logs/log-files.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { removeDrainedEndpoints, removeLeftBehind } from "../../src/upkeep/removed-endpoints.ts";
import { newJob } from "../conformance/queue.ts";
import { newApp, newEndpoint, newEnvironment } from "../conformance/store.ts";
import { joinedHost } from "../conformance/store-hosts.ts";
import { openTestStore } from "../store/open-store.ts";

test("jobs and logs of an endpoint that could not be removed with it are removed later, those of others stay", async (t) => {
  const under = await openTestStore();
  const { store, database, dir } = under;
  const queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock: Date.now });
  t.after(async () => {
    await queue.close();
    await under.close();
  });
  const logs = new LogFiles(path.join(dir, "logs"), Date.now);
  const [gone, here] = [newEndpoint(null), newEndpoint(null)];
  const ids: string[] = [];
  for (const endpoint of [gone, here]) {
    await store.endpoints.insert(endpoint);
    ids.push((await queue.enqueue(newJob(endpoint.id))).id);
    logs.append({ endpointId: endpoint.id, workerId: "w", jobId: "", stream: "stdout", text: "hello" });
  }
  await logs.idle();
  await store.endpoints.delete(gone.id);

  const broken = { endpointIds: () => queue.endpointIds(), forget: () => Promise.reject(new Error("the disk fails")) };
  await assert.rejects(removeLeftBehind(store, [broken, logs]), /the disk fails/);
  assert.deepEqual(readdirSync(path.join(dir, "logs")), [`${here.id}.ndjson`], "one failure keeps nothing else");
  await removeLeftBehind(store, [queue, logs]);
  assert.deepEqual(
    (await Promise.all(ids.map((id) => queue.find(id)))).map((job) => job?.state),
    [undefined, "IN_QUEUE"],
  );
  assert.deepEqual(await queue.endpointIds(), [here.id]);
  assert.ok(existsSync(path.join(dir, "logs", `${here.id}.ndjson`)));
});

test("series of an environment that is gone go too, those of one that is there stay", async (t) => {
  const under = await openTestStore();
  const history = openHistory(path.join(under.dir, "history.db"), { info() {}, error() {} }, (opened) => opened);
  t.after(async () => {
    await history.close();
    await under.close();
  });
  const series = new SqliteSeries(history);
  const app = newApp();
  await under.store.apps.insert(app);
  const [here, gone] = [newEnvironment(app.id), newEnvironment(app.id, "staging")];
  await under.store.environments.insert(here);
  const recorded = (environmentId: string) => ({ environmentId, numbers: { done: 1 }, histograms: {} });
  const rows = [here, gone].map(({ id }) => [`endpoint of ${id}`, recorded(id)] as const);
  const { id: joined } = await joinedHost(under.store);
  const nothing = { numbers: {}, histograms: {} };
  const machines = [joined, "removed"].map((id) => [id, nothing] as const);
  series.record(0, new Map(rows), nothing, new Map(machines));
  await history.flush();
  await removeLeftBehind(under.store, [series]);
  await history.flush();
  assert.deepEqual((await series.endpointIds()).sort(), [here.id, joined].sort());
});

test("an endpoint whose jobs cannot be removed stays until they can", async (t) => {
  const under = await openTestStore();
  t.after(() => under.close());
  const { store } = under;
  const app = newApp();
  await store.apps.insert(app);
  const environment = newEnvironment(app.id);
  await store.environments.insert(environment);
  const endpoint = newEndpoint(environment.id);
  await store.endpoints.insert(endpoint);
  await store.endpoints.update(endpoint.id, removal(endpoint, 1));
  const failing = { forget: () => Promise.reject(new Error("the disk fails")) };
  await assert.rejects(removeDrainedEndpoints(store, failing), /the disk fails/);
  assert.notEqual(await store.endpoints.find(endpoint.id), undefined);
  const forgotten: string[] = [];
  await removeDrainedEndpoints(store, { forget: async (id) => void forgotten.push(id) });
  assert.deepEqual(forgotten, [endpoint.id]);
  assert.equal(await store.endpoints.find(endpoint.id), undefined);
});
