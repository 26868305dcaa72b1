/** Those of migrations.ts that make the tables of what happened, and of hosts. */
import { type Kysely, type Migration, sql } from "kysely";
import { isPostgres, refuseUpdatesOfAudit } from "./postgres-migrations.ts";

/** What happened: deploys with how they fared, and who did what. Of what is deployed already, the builds tell. */
export const records: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("deploys")
      .addColumn("id", "integer", (c) => c.primaryKey().autoIncrement())
      .addColumn("buildId", "text", (c) => c.notNull())
      // No reference: the record outlives its environment.
      .addColumn("environmentId", "text", (c) => c.notNull())
      .addColumn("app", "text", (c) => c.notNull())
      .addColumn("environment", "text", (c) => c.notNull())
      .addColumn("at", "bigint", (c) => c.notNull())
      .addColumn("action", "text", (c) => c.notNull())
      .addColumn("keyName", "text", (c) => c.notNull())
      .addColumn("gitCommit", "text", (c) => c.notNull())
      .addColumn("message", "text", (c) => c.notNull())
      .addColumn("verdict", "text", (c) => c.notNull())
      .addColumn("verdictReason", "text", (c) => c.notNull())
      .addColumn("verdictAt", "bigint")
      .addColumn("endpoints", "text", (c) => c.notNull())
      .addColumn("changes", "text", (c) => c.notNull())
      .execute();
    await db.schema.createIndex("deploysByEnvironment").on("deploys").columns(["environmentId", "id"]).execute();
    await db.schema.createIndex("deploysByBuild").on("deploys").columns(["buildId"]).execute();
    // Nothing was deployed on PostgreSQL before this step.
    if (!isPostgres(db)) await takeDeploysOfBuilds(db);
    await db.schema
      .createTable("audit")
      .addColumn("id", "integer", (c) => c.primaryKey().autoIncrement())
      .addColumn("at", "bigint", (c) => c.notNull())
      .addColumn("keyId", "text")
      .addColumn("keyName", "text", (c) => c.notNull())
      .addColumn("action", "text", (c) => c.notNull())
      .addColumn("target", "text", (c) => c.notNull())
      .addColumn("detail", "text", (c) => c.notNull())
      .addColumn("address", "text", (c) => c.notNull())
      .execute();
    await db.schema.createIndex("auditByAction").on("audit").columns(["action", "id"]).execute();
    await (isPostgres(db)
      ? refuseUpdatesOfAudit(db)
      : sql`create trigger audit_append_only before update on audit
      begin select raise(abort, 'the audit log is only appended to'); end`.execute(db));
  },
};

async function takeDeploysOfBuilds(db: Kysely<unknown>): Promise<void> {
  await sql`insert into deploys (build_id, environment_id, app, environment, at, action, key_name, git_commit, message,
      verdict, verdict_reason, verdict_at, endpoints, changes)
    select b.id, e.id, a.name, e.name, b.created_at, 'deploy', b.key_name, b.git_commit, b.message,
      b.verdict, b.verdict_reason, b.verdict_at,
      (select json_group_array(key) from json_each(b.manifest, '$.resources')), '[]'
    from builds b join environments e on e.id = b.environment_id join apps a on a.id = e.app_id
    order by b.created_at, b.id`.execute(db);
}

/** Alerts, with the messages they still have to deliver. */
export const alerts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("alerts")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("kind", "text", (c) => c.notNull())
      .addColumn("url", "text", (c) => c.notNull())
      .addColumn("environmentId", "text")
      .addColumn("endpointId", "text")
      .addColumn("threshold", "real", (c) => c.notNull())
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("firing", "integer", (c) => c.notNull())
      .addColumn("lastAt", "bigint")
      .addColumn("lastDelivery", "text", (c) => c.notNull())
      .addColumn("messages", "text", (c) => c.notNull())
      .addColumn("failures", "integer", (c) => c.notNull())
      .addColumn("dueAt", "bigint", (c) => c.notNull())
      .execute();
  },
};

/** Hosts that are Pods, and whose workers alone may run on each. */
export const hostPods: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const column of ["pod", "holder"]) {
      await db.schema
        .alterTable("hosts")
        .addColumn(column, "text", (c) => c.notNull().defaultTo(""))
        .execute();
    }
  },
};

/** Machines that joined, the tokens that let them in, and labels of those that an endpoint may run on. */
export const hosts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("hosts")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("name", "text", (c) => c.notNull().unique())
      .addColumn("secretHash", "text", (c) => c.notNull().unique())
      .addColumn("labels", "text", (c) => c.notNull())
      .addColumn("arch", "text", (c) => c.notNull())
      .addColumn("version", "text", (c) => c.notNull())
      .addColumn("driver", "text", (c) => c.notNull())
      .addColumn("sharedVolumes", "integer", (c) => c.notNull())
      .addColumn("draining", "integer", (c) => c.notNull())
      .addColumn("joinedAt", "bigint", (c) => c.notNull())
      .addColumn("lastSeenAt", "bigint", (c) => c.notNull())
      .execute();
    await db.schema
      .createTable("hostTokens")
      .addColumn("id", "text", (c) => c.primaryKey())
      .addColumn("tokenHash", "text", (c) => c.notNull().unique())
      .addColumn("name", "text", (c) => c.notNull())
      .addColumn("reusable", "integer", (c) => c.notNull())
      .addColumn("expiresAt", "bigint")
      .addColumn("createdAt", "bigint", (c) => c.notNull())
      .addColumn("usedAt", "bigint")
      .addColumn("revokedAt", "bigint")
      .addColumn("createdBy", "text", (c) => c.notNull())
      .execute();
    await db.schema
      .alterTable("endpoints")
      .addColumn("hosts", "text", (c) => c.notNull().defaultTo(""))
      .execute();
  },
};
