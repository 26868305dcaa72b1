/**
 * In runs with servers (run.ts) platforms of the tests keep their records and jobs in one PostgreSQL, and layers and large bodies
 * in one S3, each in a database and below a prefix of its own. In others they are embedded, and nothing here does anything.
 */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import path from "node:path";
import type { BucketSettings } from "../src/s3/bucket-settings.ts";
import { findPostgres, startPostgres } from "./postgres.ts";
import { bucketEnv, findS3, startS3 } from "./s3.ts";

/** Each platform opens at most 13, and some files start a dozen. */
const CONNECTIONS_MAX = "400";

interface Servers {
  /** Of PostgreSQL's superuser. */
  readonly adminUrl: string;
  readonly bucket: BucketSettings;
  /** Where the bucket's objects are. */
  readonly folder: string;
}

/** Of the run that this process belongs to. */
const servers: Servers | undefined = JSON.parse(process.env.SVC_TEST_SERVERS ?? "null") ?? undefined;
const made = new Set<string>();

export interface StartedServers {
  /** For the files that run with them. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Starts both, or resolves why they cannot be. */
export async function startServers(): Promise<StartedServers | string> {
  const [postgres, s3] = [await findPostgres(), await findS3()];
  if ("missing" in postgres) return postgres.missing;
  if ("missing" in s3) return s3.missing;
  const database = await startPostgres(postgres.bin, { settings: { max_connections: CONNECTIONS_MAX } });
  const bucket = await startS3(s3.program).catch(async (error) => {
    await database.stop();
    throw error;
  });
  const given: Servers = { adminUrl: database.adminUrl, bucket: bucket.settings, folder: path.dirname(bucket.folder) };
  const counted = await countConnections(database.adminUrl);
  const stop = async () => {
    console.log(`PostgreSQL: at most ${await counted()}`);
    await Promise.all([database.stop(), bucket.stop()]);
  };
  return { env: { SVC_TEST_SERVERS: JSON.stringify(given) }, stop };
}

/** Looks each second; resolves what ends that and says what the most was. */
async function countConnections(adminUrl: string): Promise<() => Promise<string>> {
  const { default: pg } = await import("pg");
  const client = new pg.Client(adminUrl);
  await client.connect();
  const most = { ofOne: 0, inAll: 0 };
  const look = async () => {
    const sql = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'svc' GROUP BY datname";
    const counts = (await client.query<{ n: number }>(sql)).rows.map(({ n }) => n);
    most.ofOne = Math.max(most.ofOne, ...counts);
    most.inAll = Math.max(
      most.inAll,
      counts.reduce((sum, n) => sum + n, 0),
    );
  };
  let last: Promise<void> = look();
  const timer = setInterval(() => {
    last = last.then(look).catch(() => {});
  }, 1_000);
  return async () => {
    clearInterval(timer);
    await last;
    await client.end();
    return `${most.ofOne} connections of one platform, ${most.inAll} in all`;
  };
}

/** A test that is about the files of an embedded platform says so by its option `skip`. */
export function embeddedOnly(why: string): string | false {
  return servers !== undefined && `not with a database and a bucket: ${why}`;
}

export interface ServersOfOne {
  readonly databaseUrl: string;
  readonly bucket: BucketSettings;
}

/** Where a platform with this data directory keeps things: the same each time. Undefined in a run without servers. */
export async function serversOf(dataDir: string): Promise<ServersOfOne | undefined> {
  if (servers === undefined) return undefined;
  const name = nameOf(dataDir);
  if (!made.has(name)) {
    made.add(name);
    await asAdmin(`CREATE DATABASE ${name} OWNER svc`);
  }
  const url = new URL(servers.adminUrl);
  url.username = "svc";
  url.pathname = `/${name}`;
  return { databaseUrl: url.href, bucket: { ...servers.bucket, prefix: `${name}/` } };
}

/** The same for a platform with this environment, as its environment. */
export async function serversEnv(
  dataDir: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Record<string, string>> {
  // Who names one itself knows what for.
  if (env.SVC_DATABASE_URL !== undefined || env.SVC_S3_BUCKET !== undefined) return {};
  const given = await serversOf(dataDir);
  return given === undefined ? {} : { SVC_DATABASE_URL: given.databaseUrl, ...bucketEnv(given.bucket) };
}

/** Where the objects are of a platform with this data directory; undefined in a run without servers. */
export function objectsOf(dataDir: string): string | undefined {
  return servers && path.join(servers.folder, nameOf(dataDir));
}

/** Drops what the platforms with this data directory kept there. */
export async function dropServersOf(dataDir: string): Promise<void> {
  const name = nameOf(dataDir);
  if (!made.delete(name)) return;
  await asAdmin(`DROP DATABASE ${name} WITH (FORCE)`);
  try {
    rmSync(objectsOf(dataDir)!, { recursive: true, force: true });
  } catch (error) {
    // In tests of an ordinary user they are root's: they go with the server.
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}

/** All rows that the platform with this data directory has in its database, as text; undefined in a run without servers. */
export async function rowsOf(dataDir: string): Promise<string | undefined> {
  const given = await serversOf(dataDir);
  if (given === undefined) return undefined;
  const { default: pg } = await import("pg");
  const client = new pg.Client(given.databaseUrl);
  await client.connect();
  try {
    const named = "SELECT format('%I', tablename) AS name FROM pg_tables WHERE schemaname = current_schema()";
    const texts: string[] = [];
    for (const { name } of (await client.query<{ name: string }>(named)).rows)
      texts.push(
        ...(await client.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`)).rows.map(({ row }) => row),
      );
    return texts.join("\n");
  } finally {
    await client.end();
  }
}

function nameOf(dataDir: string): string {
  return `t_${createHash("sha256").update(dataDir).digest("hex").slice(0, 16)}`;
}

async function asAdmin(statement: string): Promise<void> {
  const { default: pg } = await import("pg");
  const client = new pg.Client(servers!.adminUrl);
  await client.connect();
  await client.query(statement).finally(() => client.end());
}
