/** Where the control plane of a test has its records and jobs: in its folder, or, in a run with servers, in a database and a bucket. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";
import { BucketLogs } from "../../src/logs/bucket-logs.ts";
import { ChunkIndex } from "../../src/logs/chunk-index.ts";
import { ChunkObjects } from "../../src/logs/chunk-objects.ts";
import { LogFiles } from "../../src/logs/log-files.ts";
import type { LogStore } from "../../src/logs/log-store.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import { S3BodyStore } from "../../src/queue/bodies/s3-body-store.ts";
import { openPostgresQueue } from "../../src/queue/postgres-queue.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import type { LoginStore } from "../../src/store/logins.ts";
import { MemoryLogins } from "../../src/store/memory-logins.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { PostgresLogins } from "../../src/store/postgres-logins.ts";
import { openPostgresStore } from "../../src/store/postgres-store.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { type ServersOfOne, serversOf } from "../servers.ts";

export interface TestStores {
  readonly store: Store;
  readonly queue: JobQueue;
  readonly logs: LogStore & { idle(): Promise<void> };
  readonly logins: LoginStore;
  readonly isPostgres: boolean;
  /** Statements of the database itself; resolves the rows of one. */
  sql(statement: string): Promise<unknown[]>;
  close(): Promise<void>;
}

/** `clock`: of the logs. What was kept on servers stays there after close(). */
export async function openStores(dir: string, clock: () => number = Date.now): Promise<TestStores> {
  const servers = await serversOf(dir);
  return servers === undefined ? openEmbedded(dir, clock) : openOnServers(servers, clock);
}

async function openEmbedded(dir: string, clock: () => number): Promise<TestStores> {
  const database = openPlatformDatabase(dir, "normal");
  const store = await openSqliteStore(database);
  const queue = await openSqliteQueue({ database, blobDir: join(dir, "blobs"), clock: Date.now });
  const sql = async (statement: string) => {
    if (statement.startsWith("SELECT")) return database.connection.prepare(statement).all();
    database.connection.exec(statement);
    return [];
  };
  const logs = new LogFiles(join(dir, "logs"), clock);
  const close = async () => {
    await logs.idle();
    await queue.close();
    await store.close();
    database.close();
  };
  const logins = new MemoryLogins(() => performance.now(), randomBytes);
  return { store, queue, logs, logins, isPostgres: false, sql, close };
}

async function openOnServers(servers: ServersOfOne, clock: () => number): Promise<TestStores> {
  const access = { url: parseDatabaseUrl(servers.databaseUrl), passwordFile: undefined };
  const postgres = new Postgres({ access, connectionsMax: 5 });
  const bucket = await Bucket.open(servers.bucket);
  const store = await openPostgresStore(postgres);
  const queue = await openPostgresQueue({ postgres, bodies: new S3BodyStore(bucket), clock: Date.now });
  const sql = async (statement: string) => (await postgres.query(statement)).rows;
  const [objects, index] = [new ChunkObjects(bucket), new ChunkIndex(postgres)];
  const logs = new BucketLogs({ objects, index, clock, now: () => performance.now(), onError() {} });
  const close = async () => {
    await logs.close();
    await queue.close();
    await store.close();
    await postgres.close();
    bucket.close();
  };
  const logins = new PostgresLogins(postgres, new SealedText(randomBytes(SEAL_KEY_BYTES)), randomBytes);
  return { store, queue, logs, logins, isPostgres: true, sql, close };
}
