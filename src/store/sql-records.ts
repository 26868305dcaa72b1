import { type RawBuilder, sql } from "kysely";
import type { AuditRepository, DeployRecord, DeployRepository } from "./records.ts";
import type { Session } from "./session.ts";

/** The newest of its environment, which still has that build. */
const IS_LIVE = sql<number>`case
  when deploys.id = (select max(d.id) from deploys d where d.environment_id = deploys.environment_id)
    and exists (select 1 from environments e where e.id = deploys.environment_id and e.build_id = deploys.build_id)
  then 1 else 0 end`;

export function deployRepository({ db }: Session): DeployRepository {
  return {
    async insert({ verdict, endpoints, changes, ...deploy }) {
      const { state, reason, at } = verdict;
      await db
        .insertInto("deploys")
        .values({
          ...deploy,
          verdict: state,
          verdictReason: reason,
          verdictAt: at,
          endpoints: JSON.stringify(endpoints),
          changes: JSON.stringify(changes),
        })
        .execute();
    },
    async list({ environmentId, app, environment }, first, before = Number.MAX_SAFE_INTEGER) {
      let query = db.selectFrom("deploys").selectAll().select(IS_LIVE.as("live")).where("id", "<", before);
      if (environmentId !== undefined) query = query.where("environmentId", "=", environmentId);
      if (app !== undefined) query = query.where("app", "=", app);
      if (environment !== undefined) query = query.where("environment", "=", environment);
      const rows = await query.orderBy("id", "desc").limit(first).execute();
      return rows.map(({ verdict, verdictReason, verdictAt, live, ...row }) => ({
        ...row,
        verdict: { state: verdict, reason: verdictReason, at: verdictAt },
        endpoints: JSON.parse(row.endpoints) as DeployRecord["endpoints"],
        changes: JSON.parse(row.changes) as DeployRecord["changes"],
        live: live === 1,
      }));
    },
    async trim(at, keep) {
      const last = sql<number>`(select id from deploys order by id desc limit 1 offset ${keep})`;
      await db.deleteFrom("deploys").where("at", "<", at).execute();
      await db.deleteFrom("deploys").where("id", "<=", last).execute();
    },
  };
}

export function auditRepository({ db }: Session): AuditRepository {
  return {
    async append(entry) {
      await db.insertInto("audit").values(entry).execute();
    },
    async list({ from, to, action }, first, before = Number.MAX_SAFE_INTEGER) {
      let query = db.selectFrom("audit").selectAll().where("id", "<", before);
      if (from !== undefined) query = query.where("at", ">=", from);
      if (to !== undefined) query = query.where("at", "<=", to);
      if (action !== undefined) query = query.where("action", "=", action);
      return query.orderBy("id", "desc").limit(first).execute();
    },
    async trim(at, { action, ofAction, ofOthers }) {
      await db.deleteFrom("audit").where("at", "<", at).execute();
      const surplus = async (which: RawBuilder<boolean>, keep: number) => {
        const last = sql<number>`(select id from audit where ${which} order by id desc limit 1 offset ${keep})`;
        await db.deleteFrom("audit").where(which).where("id", "<=", last).execute();
      };
      await surplus(sql<boolean>`action = ${action}`, ofAction);
      await surplus(sql<boolean>`action <> ${action}`, ofOthers);
    },
  };
}
