import { type Kysely, type Migration, sql } from "kysely";

/** gpuCount may be a fraction of a GPU; workersDesired, which nothing read, goes. */
export const gpuFractions: Migration = {
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
