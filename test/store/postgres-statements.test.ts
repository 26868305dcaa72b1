/** What calls, starts of workers, deploys and logs ask of PostgreSQL's records goes by an index, however many there are. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LOG_KEPT_MAX_BYTES } from "../../src/domain/limits.ts";
import { ChunkIndex } from "../../src/logs/chunk-index.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import { openPostgresStore } from "../../src/store/postgres-store.ts";
import type { Store } from "../../src/store/store.ts";
import { newApp, newBuild, newEndpoint, newEnvironment, newKey, newWorker } from "../conformance/store.ts";
import { statementsOf, wholeReads } from "../explained.ts";
import { findPostgres, startPostgres } from "../postgres.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const ROWS = 5_000;
/** Of a column, what it is in the nth row: SQL. The others are as in the row that is there. */
const FILLED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  builds: { id: "'build' || n" },
  endpoints: { id: "'endpoint' || n", name: "'endpoint' || n" },
  workers: { id: "'worker' || n", token_hash: "'token' || n", endpoint_id: "'endpoint' || 1 + n % 2000" },
  console_sessions: { id: "'session' || n", hash: "'hash' || n" },
  api_keys: { id: "'key' || n", hash: "'hash' || n" },
};

describe("the store at work on PostgreSQL", { skip }, () => {
  test("reads no large table as a whole for what happens often", async (t) => {
    const server = await startPostgres((found as { bin: string }).bin);
    t.after(() => server.stop());
    const access = { url: parseDatabaseUrl(server.url), passwordFile: undefined };
    const postgres = new Postgres({ access, connectionsMax: 4 });
    const store = await openPostgresStore(postgres);
    t.after(async () => {
      await store.close();
      await postgres.close();
    });
    const app = newApp();
    await store.apps.insert(app);
    const environment = newEnvironment(app.id);
    await store.environments.insert(environment);
    await store.builds.insert(newBuild(environment.id));
    const endpoint = newEndpoint(environment.id);
    await store.endpoints.insert(endpoint);
    await store.workers.insert(newWorker(endpoint.id));
    const key = newKey();
    await store.keys.insert(key);
    const session = { id: "one", hash: "one", keyId: key.id, createdAt: 1, expiresAt: Date.now() + 1e9 };
    await store.consoleSessions.insert(session, 9);
    for (const [table, columns] of Object.entries(FILLED)) {
      const row = Object.entries(columns).map(([name, value]) => `'${name}', ${value}`);
      await postgres.query(
        `INSERT INTO ${table} SELECT (jsonb_populate_record(one, jsonb_build_object(${row.join()}))).*
           FROM ${table} one, generate_series(1, ${ROWS}) n`,
      );
    }
    await postgres.query(
      `INSERT INTO log_chunks SELECT 'chunk' || n, 'endpoint' || n % 100, n, n, 1, ${LOG_KEPT_MAX_BYTES / 100} FROM generate_series(1, ${ROWS}) n`,
    );
    await postgres.query("ANALYZE");
    const statements = await statementsOf(async () => {
      await work(store);
      await logs(new ChunkIndex(postgres));
    });
    assert.ok(statements.size > 20, `${statements.size} statements`);
    // An app or environment more is a deploy more; changes are kept for minutes, and the old ones deleted in one go.
    const isSmall = (table: string) => /^(pg_.*|apps|environments|changes)$/.test(table);
    assert.deepEqual(await wholeReads(postgres, statements, isSmall), []);
  });
});

async function work({ keys, workers, endpoints, builds, consoleSessions }: Store): Promise<void> {
  const key = (await keys.findByHash("hash7"))!;
  await keys.find(key.id);
  await keys.touch(key.id, 7);
  await keys.delete("key8");
  await consoleSessions.findByHash("none");
  await endpoints.find("endpoint9");
  await endpoints.update("endpoint9", { reason: "x" });
  await endpoints.delete("endpoint10");
  await builds.find("build9");
  const worker = newWorker("endpoint9");
  await workers.insert(worker);
  await workers.findByToken(worker.tokenHash);
  await workers.find(worker.id);
  await workers.listByEndpoint("endpoint9");
  await workers.update(worker.id, { state: "READY" });
  await workers.delete(worker.id);
}

async function logs(index: ChunkIndex): Promise<void> {
  const row = { id: "new", endpointId: "endpoint1", firstAt: 1, lastAt: 2, lines: 1, bytes: 1 };
  await index.put([row]);
  await index.newest(["endpoint1"], {});
  await index.newest(["endpoint1", "endpoint2"], { since: 10, until: 1_000 }, row);
  await index.known(["chunk1", "chunk2"]);
  await index.endpointIds();
  await index.trim(["endpoint1"]);
  await index.expire(500);
  await index.forget("endpoint2");
}
