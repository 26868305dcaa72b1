import type { Kysely, Migration } from "kysely";

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
