import { CONTAINER_DEFAULT, type TemplateContainer } from "../domain/container.ts";
import type { Session } from "./session.ts";
import type { NetworkVolumeRepository, RegistryAuthRepository, Template, TemplateRepository } from "./store.ts";
import type { Tables } from "./tables.ts";

export function templateRepository({ db, guard, env }: Session): TemplateRepository {
  const read = (row: Tables["templates"]): Template => ({
    ...row,
    env: env.read("templates", row.id, row.env) as Template["env"],
    container: { ...CONTAINER_DEFAULT, ...(JSON.parse(row.container) as Partial<TemplateContainer>) },
  });
  return {
    async find(id) {
      const row = await db.selectFrom("templates").selectAll().where("id", "=", id).executeTakeFirst();
      return row && read(row);
    },
    async list() {
      return (await db.selectFrom("templates").selectAll().orderBy("name").execute()).map(read);
    },
    async save(template) {
      const { id, createdAt, ...rest } = template;
      const changes = {
        ...rest,
        env: env.write("templates", id, template.env),
        container: JSON.stringify(template.container),
      };
      await guard(
        `There is a template named "${template.name}" already.`,
        db
          .insertInto("templates")
          .values({ id, createdAt, ...changes })
          .onConflict((conflict) => conflict.column("id").doUpdateSet(changes))
          .execute(),
      );
    },
    async delete(id) {
      const { numDeletedRows } = await db.deleteFrom("templates").where("id", "=", id).executeTakeFirst();
      return numDeletedRows > 0n;
    },
  };
}

export function registryAuthRepository({ db, guard }: Session): RegistryAuthRepository {
  return {
    find: (id) => db.selectFrom("registryAuths").selectAll().where("id", "=", id).executeTakeFirst(),
    list: () => db.selectFrom("registryAuths").selectAll().orderBy("name").execute(),
    async save(auth) {
      const { id, createdAt, ...changes } = auth;
      await guard(
        `There are registry credentials named "${auth.name}" already.`,
        db
          .insertInto("registryAuths")
          .values({ id, createdAt, ...changes })
          .onConflict((conflict) => conflict.column("id").doUpdateSet(changes))
          .execute(),
      );
    },
    async delete(id) {
      const { numDeletedRows } = await db.deleteFrom("registryAuths").where("id", "=", id).executeTakeFirst();
      return numDeletedRows > 0n;
    },
  };
}

export function networkVolumeRepository({ db }: Session): NetworkVolumeRepository {
  return {
    list: () => db.selectFrom("networkVolumes").selectAll().orderBy("id").execute(),
    async save({ id, createdAt, ...changes }) {
      await db
        .insertInto("networkVolumes")
        .values({ id, createdAt, ...changes })
        .onConflict((conflict) => conflict.column("id").doUpdateSet(changes))
        .execute();
    },
    async delete(id) {
      await db.deleteFrom("networkVolumes").where("id", "=", id).execute();
    },
  };
}
