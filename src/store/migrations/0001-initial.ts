import type { Kysely, Migration } from "kysely";

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
