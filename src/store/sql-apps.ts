import type { BuildVerdict } from "../domain/build-verdict.ts";
import type { Manifest } from "../domain/manifest.ts";
import type { Session } from "./session.ts";
import type { AppRepository, Build, BuildRepository, EnvironmentRepository } from "./store.ts";
import type { Tables } from "./tables.ts";

export function appRepository({ db, guard }: Session): AppRepository {
  return {
    find: (id) => db.selectFrom("apps").selectAll().where("id", "=", id).executeTakeFirst(),
    findByName: (name) => db.selectFrom("apps").selectAll().where("name", "=", name).executeTakeFirst(),
    list: () => db.selectFrom("apps").selectAll().orderBy("name").execute(),
    listEmpty: () =>
      db
        .selectFrom("apps")
        .selectAll()
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom("environments").select("environments.id").whereRef("appId", "=", "apps.id"))),
        )
        .orderBy("name")
        .execute(),
    async insert(app) {
      await guard(`An app named "${app.name}" exists already.`, db.insertInto("apps").values(app).execute());
    },
    async rename(id, name) {
      const query = db.updateTable("apps").set({ name }).where("id", "=", id);
      await guard(`An app named "${name}" exists already.`, query.execute());
    },
    async delete(id) {
      await guard("The app still has endpoints.", db.deleteFrom("apps").where("id", "=", id).execute());
    },
  };
}

export function environmentRepository({ db, guard }: Session): EnvironmentRepository {
  return {
    find: (id) => db.selectFrom("environments").selectAll().where("id", "=", id).executeTakeFirst(),
    listByApp: (appId) =>
      db.selectFrom("environments").selectAll().where("appId", "=", appId).orderBy("name").execute(),
    listEmpty: () =>
      db
        .selectFrom("environments")
        .selectAll()
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom("endpoints").select("endpoints.id").whereRef("environmentId", "=", "environments.id"))),
        )
        .orderBy("name")
        .execute(),
    async insert(environment) {
      await guard(
        `An environment named "${environment.name}" exists already in this app, or the app is gone.`,
        db.insertInto("environments").values(environment).execute(),
      );
    },
    async rename(id, name) {
      const query = db.updateTable("environments").set({ name }).where("id", "=", id);
      await guard(`An environment named "${name}" exists already in this app.`, query.execute());
    },
    async setBuild(id, buildId) {
      await db.updateTable("environments").set({ buildId }).where("id", "=", id).execute();
    },
    async delete(id) {
      await guard("The environment still has endpoints.", db.deleteFrom("environments").where("id", "=", id).execute());
    },
  };
}

export function buildRepository({ db, guard, env }: Session): BuildRepository {
  const read = ({ verdictReason, verdictAt, ...row }: Tables["builds"]): Build => ({
    ...row,
    manifest: JSON.parse(row.manifest) as Manifest,
    env: env.readBuild(row.id, row.env),
    verdict: { state: row.verdict, reason: verdictReason, at: verdictAt },
  });
  const verdictColumns = ({ state, reason, at }: BuildVerdict) => ({
    verdict: state,
    verdictReason: reason,
    verdictAt: at,
  });
  return {
    async find(id) {
      const row = await db.selectFrom("builds").selectAll().where("id", "=", id).executeTakeFirst();
      return row && read(row);
    },
    async listByEnvironment(environmentId) {
      const rows = await db
        .selectFrom("builds")
        .selectAll()
        .where("environmentId", "=", environmentId)
        .orderBy("createdAt", "desc")
        .orderBy("id", "desc")
        .execute();
      return rows.map(read);
    },
    async listUnproven() {
      const rows = await db
        .selectFrom("builds")
        .innerJoin("environments", (join) =>
          join.onRef("environments.id", "=", "environmentId").onRef("environments.buildId", "=", "builds.id"),
        )
        .select(["builds.id", "environmentId", "verdict", "verdictReason", "verdictAt"])
        .select(({ exists, selectFrom }) => {
          const own = selectFrom("endpoints").select("endpoints.id").whereRef("buildId", "=", "builds.id");
          return exists(own.whereRef("environmentId", "=", "environments.id").where("workersMax", ">", 0)).as("mayRun");
        })
        .where("verdict", "in", ["pending", "failed"])
        .execute();
      return rows.map(({ id, environmentId, verdict, verdictReason, verdictAt, mayRun }) => ({
        id,
        environmentId,
        mayRun: Boolean(mayRun),
        verdict: { state: verdict, reason: verdictReason, at: verdictAt },
      }));
    },
    async judge(id, verdict) {
      await db.updateTable("builds").set(verdictColumns(verdict)).where("id", "=", id).execute();
      // The records of its deploys outlive it.
      await db.updateTable("deploys").set(verdictColumns(verdict)).where("buildId", "=", id).execute();
    },
    async delete(id) {
      await db.deleteFrom("builds").where("id", "=", id).execute();
    },
    async insert(build) {
      await guard(
        "The build exists already, or its environment is gone.",
        db
          .insertInto("builds")
          .values({
            ...build,
            ...verdictColumns(build.verdict),
            manifest: JSON.stringify(build.manifest),
            env: env.writeBuild(build.id, build.env),
          })
          .execute(),
      );
    },
  };
}
