/** The store's tables, step by step. Columns are named in camelCase: the plugin of the connection writes them as snake_case. */
import { type Kysely, type Migration, Migrator, sql } from "kysely";
import { changes, deviceLogins, isPostgres, logChunks } from "./postgres-migrations.ts";
import { alerts, hostPods, hosts, records } from "./record-migrations.ts";

/** Columns are named in camelCase here: the plugin of the connection writes them as snake_case. */
export const initial: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("apps")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("name", "text", (c) => c.notNull().unique())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .execute();
    await db.schema
      .createTable("environments")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("appId", "text", (c) => c.notNull().references("apps.id").onDelete("cascade"))
      .addColumn("name", "text", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("buildId", "text")
      .addUniqueConstraint("environmentName", ["appId", "name"])
      .execute();
    await db.schema
      .createTable("builds")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("environmentId", "text", (c) => c.notNull().references("environments.id").onDelete("cascade"))
      .addColumn("manifest", "text", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .execute();
    await db.schema.createIndex("buildsByEnvironment").on("builds").columns(["environmentId", "createdAt"]).execute();
    await createEndpoints(db);
    await createWorkers(db);
    await createApiKeys(db);
  },
};

async function createEndpoints(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("endpoints")
    .addColumn("id", "text", (c) => c.primaryKey())
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("kind", "text", (c) => c.notNull())
    // An environment or app with endpoints cannot go: its endpoints must be drained first.
    .addColumn("environmentId", "text", (c) => c.references("environments.id").onDelete("restrict"))
    .addColumn("buildId", "text")
    .addColumn("templateId", "text", (c) => c.notNull())
    .addColumn("env", "text", (c) => c.notNull())
    .addColumn("revision", "text", (c) => c.notNull())
    .addColumn("workersDesired", "integer", (c) => c.notNull())
    .addColumn("reason", "text", (c) => c.notNull())
    .addColumn("createdAt", "bigint", (c) => c.notNull())
    .addColumn("updatedAt", "bigint", (c) => c.notNull())
    .addColumn("workersMin", "integer", (c) => c.notNull())
    .addColumn("workersMax", "integer", (c) => c.notNull())
    .addColumn("idleTimeout", "integer", (c) => c.notNull())
    .addColumn("gpuIds", "text", (c) => c.notNull())
    .addColumn("gpuCount", "integer", (c) => c.notNull())
    .addColumn("instanceIds", "text", (c) => c.notNull())
    .addColumn("maxConcurrency", "integer", (c) => c.notNull())
    .addColumn("executionTimeoutMs", "bigint", (c) => c.notNull())
    .addColumn("scalerType", "text", (c) => c.notNull())
    .addColumn("scalerValue", "integer", (c) => c.notNull())
    .addColumn("svcBootType", "text", (c) => c.notNull())
    .addColumn("imageName", "text", (c) => c.notNull())
    .addColumn("networkVolumeId", "text", (c) => c.notNull())
    .addColumn("locations", "text", (c) => c.notNull())
    .addUniqueConstraint("endpointName", ["environmentId", "name"])
    .execute();
}

async function createWorkers(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("workers")
    .addColumn("id", "text", (c) => c.primaryKey())
    .addColumn("endpointId", "text", (c) => c.notNull().references("endpoints.id").onDelete("cascade"))
    .addColumn("buildId", "text", (c) => c.notNull())
    .addColumn("revision", "text", (c) => c.notNull())
    .addColumn("state", "text", (c) => c.notNull())
    .addColumn("tokenHash", "text", (c) => c.notNull().unique())
    .addColumn("createdAt", "bigint", (c) => c.notNull())
    .addColumn("readyAt", "bigint")
    .addColumn("reason", "text", (c) => c.notNull())
    .execute();
  await db.schema.createIndex("workersByEndpoint").on("workers").columns(["endpointId"]).execute();
}

async function createApiKeys(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("apiKeys")
    .addColumn("id", "text", (c) => c.primaryKey())
    .addColumn("name", "text", (c) => c.notNull())
    .addColumn("prefix", "text", (c) => c.notNull())
    .addColumn("hash", "text", (c) => c.notNull().unique())
    .addColumn("scopes", "text", (c) => c.notNull())
    .addColumn("createdAt", "bigint", (c) => c.notNull())
    .addColumn("expiresAt", "bigint")
    .execute();
}

/** Builds keep their variables, keys may be bound to a place and tell when they were used, environments have secrets. */
export const releasesKeysSecrets: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable("builds")
      .addColumn("env", "text", (c) => c.notNull().defaultTo("{}"))
      .execute();
    await db.schema.alterTable("apiKeys").addColumn("environmentId", "text").execute();
    await db.schema.alterTable("apiKeys").addColumn("endpointId", "text").execute();
    await db.schema.alterTable("apiKeys").addColumn("lastUsedAt", "bigint").execute();
    await db.schema
      .createTable("secrets")
      .addColumn("environmentId", "text", (c) => c.notNull().references("environments.id").onDelete("cascade"))
      .addColumn("name", "text", (c) => c.notNull())
      .addColumn("sealed", "text", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("updatedAt", "bigint", (c) => c.notNull())
      .addPrimaryKeyConstraint("secretName", ["environmentId", "name"])
      .execute();
  },
};

/** Settings of load-balanced endpoints: which browser pages may call, and how long a request may wait for a worker. */
export const loadBalanced: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable("endpoints")
      .addColumn("cors", "text", (c) => c.notNull().defaultTo(""))
      .execute();
    await db.schema
      .alterTable("endpoints")
      .addColumn("requestTimeoutMs", "bigint", (c) => c.notNull().defaultTo(0))
      .execute();
  },
};

/** gpuCount may be a fraction of a GPU; workersDesired, which nothing read, goes. */
const gpuFractions: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable("endpoints").dropColumn("workersDesired").execute();
    // SQLite cannot change a column's type.
    await db.schema.alterTable("endpoints").renameColumn("gpuCount", "wholeGpuCount").execute();
    await db.schema
      .alterTable("endpoints")
      .addColumn("gpuCount", "real", (c) => c.notNull().defaultTo(1))
      .execute();
    await sql`update endpoints set gpu_count = whole_gpu_count`.execute(db);
    await db.schema.alterTable("endpoints").dropColumn("wholeGpuCount").execute();
  },
};

/** Templates of endpoints as records of their own. */
const templates: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("templates")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("name", "text", (c) => c.notNull().unique())
      .addColumn("imageName", "text", (c) => c.notNull())
      .addColumn("env", "text", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("updatedAt", "bigint", (c) => c.notNull())
      .execute();
  },
};

/** Who deployed a build, from what, and how it fared. Of those that are there nobody knows. */
const buildVerdicts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const name of ["message", "gitCommit", "keyName", "verdictReason"]) {
      await db.schema
        .alterTable("builds")
        .addColumn(name, "text", (c) => c.notNull().defaultTo(""))
        .execute();
    }
    await db.schema
      .alterTable("builds")
      .addColumn("verdict", "text", (c) => c.notNull().defaultTo("unknown"))
      .execute();
    await db.schema.alterTable("builds").addColumn("verdictAt", "bigint").execute();
    await db.schema.createIndex("builds_by_verdict").on("builds").column("verdict").execute();
  },
};

/** Jobs of an endpoint may be tried again when its function raised. */
const retries: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    const column = (name: string, type: "integer" | "bigint" | "real", value: number) =>
      db.schema
        .alterTable("endpoints")
        .addColumn(name, type, (c) => c.notNull().defaultTo(value))
        .execute();
    await column("retriesMax", "integer", 0);
    await column("retryDelayMs", "bigint", 1_000);
    await column("retryBackoff", "real", 2);
    await column("retryMaxDelayMs", "bigint", 300_000);
  },
};

/** Which routes of a load-balanced endpoint answer without a key. */
const publicRoutes: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable("endpoints")
      .addColumn("publicRoutes", "text", (c) => c.notNull().defaultTo(""))
      .execute();
  },
};

/** Endpoints may be called by a schedule. */
const schedules: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable("endpoints")
      .addColumn("schedule", "text", (c) => c.notNull().defaultTo(""))
      .execute();
    await db.schema.createIndex("endpointsBySchedule").on("endpoints").column("schedule").execute();
  },
};

/** Browsers that look at the console. */
const consoleSessions: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("consoleSessions")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("hash", "text", (c) => c.notNull().unique())
      .addColumn("keyId", "text", (c) => c.notNull().references("apiKeys.id").onDelete("cascade"))
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("expiresAt", "bigint", (c) => c.notNull())
      .execute();
    await db.schema.createIndex("consoleSessionsByKey").on("consoleSessions").columns(["keyId", "createdAt"]).execute();
  },
};

/** What templates say of containers, and what of it endpoints have; credentials of registries; volumes of no app. */
const containers: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable("templates")
      .addColumn("container", "text", (c) => c.notNull().defaultTo("{}"))
      .execute();
    await db.schema
      .alterTable("endpoints")
      .addColumn("container", "text", (c) => c.notNull().defaultTo(""))
      .execute();
    await db.schema
      .createTable("registryAuths")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("name", "text", (c) => c.notNull().unique())
      .addColumn("sealed", "text", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("updatedAt", "bigint", (c) => c.notNull())
      .execute();
    await db.schema
      .createTable("networkVolumes")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("size", "bigint", (c) => c.notNull())
      .addColumn("dataCenterId", "text", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .execute();
  },
};

/** Endpoints are looked for by their build: which of one may run, which have none. */
const endpointsByBuild: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.createIndex("endpointsByBuild").on("endpoints").column("buildId").execute();
  },
};

/** In order; a migration that was released is never changed. */
const MIGRATIONS: Readonly<Record<string, Migration>> = {
  "0001-initial": initial,
  "0002-releases-keys-secrets": releasesKeysSecrets,
  "0003-load-balanced": loadBalanced,
  "0004-gpu-fractions": gpuFractions,
  "0005-templates": templates,
  "0006-build-verdicts": buildVerdicts,
  "0007-retries": retries,
  "0008-public-routes": publicRoutes,
  "0009-schedules": schedules,
  "0010-console-sessions": consoleSessions,
  "0011-records": records,
  "0012-containers": containers,
  "0013-alerts": alerts,
  "0014-hosts": hosts,
  "0015-endpoints-by-build": endpointsByBuild,
  "0017-host-pods": hostPods,
};

/** Those that PostgreSQL alone has, between the others. */
const POSTGRES_ONLY: Readonly<Record<string, Migration>> = {
  "0014-of-several-writers": changes,
  "0016-log-chunks": logChunks,
  "0017-device-logins": deviceLogins,
};

/** Names of the newest version's steps. */
export const STORE_STEPS: readonly string[] = Object.keys(MIGRATIONS);
export const POSTGRES_STEPS: readonly string[] = [...STORE_STEPS, ...Object.keys(POSTGRES_ONLY)];

/**
 * Brings the store's tables to the newest shape, one platform at a time. Throws when a migration fails; all of this call are
 * undone on PostgreSQL then, that one alone on SQLite.
 */
export async function migrate<T>(db: Kysely<T>): Promise<void> {
  const steps = isPostgres(db) ? { ...MIGRATIONS, ...POSTGRES_ONLY } : MIGRATIONS;
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...steps }) } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}
