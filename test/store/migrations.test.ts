import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CamelCasePlugin, Kysely, Migrator } from "kysely";
import { initial, loadBalanced, releasesKeysSecrets } from "../../src/store/migrations.ts";
import { nodeSqliteDialect } from "../../src/store/node-sqlite-dialect.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";

test("endpoints of an earlier version keep their GPUs, and may have a fraction of one from now on", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-migrations-"));
  const database = openPlatformDatabase(dir, "normal");
  t.after(() => {
    database.close();
    rmSync(dir, { recursive: true });
  });
  const plugins = [new CamelCasePlugin({ maintainNestedObjectKeys: true })];
  const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database), plugins });
  const earlier = {
    "0001-initial": initial,
    "0002-releases-keys-secrets": releasesKeysSecrets,
    "0003-load-balanced": loadBalanced,
  };
  const { error } = await new Migrator({ db, provider: { getMigrations: async () => earlier } }).migrateToLatest();
  assert.equal(error, undefined);
  database.connection.exec(`INSERT INTO endpoints (id, name, kind, template_id, env, revision, workers_desired, reason,
    created_at, updated_at, workers_min, workers_max, idle_timeout, gpu_ids, gpu_count, instance_ids, max_concurrency,
    execution_timeout_ms, scaler_type, scaler_value, svc_boot_type, image_name, network_volume_id, locations)
    VALUES ('e', 'draw', 'queue', '', '{}', 'r', 0, '', 1, 1, 0, 3, 60, 'ANY', 2, '', 1, 1, 'QUEUE_DELAY', 4, 'OFF', '', '', '')`);

  const store = await openSqliteStore(database);
  const kept = (await store.endpoints.find("e"))!;
  assert.deepEqual([kept.name, kept.gpuCount, kept.workersMax, "workersDesired" in kept], ["draw", 2, 3, false]);
  await store.endpoints.update("e", { gpuCount: 0.5 });
  assert.equal((await store.endpoints.find("e"))!.gpuCount, 0.5);
});
