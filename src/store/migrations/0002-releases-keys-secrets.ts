import type { Kysely, Migration } from "kysely";

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
