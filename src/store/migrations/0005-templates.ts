import type { Kysely, Migration } from "kysely";

/** Templates of endpoints as records of their own. */
export const templates: Migration = {
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
