import type { Session } from "./sql-store.ts";
import type { Template, TemplateRepository } from "./store.ts";
import type { Tables } from "./tables.ts";

export function templateRepository({ db, guard, env }: Session): TemplateRepository {
  const read = (row: Tables["templates"]): Template => ({
    ...row,
    env: env.read("templates", row.id, row.env) as Template["env"],
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
      const changes = { ...rest, env: env.write("templates", id, template.env) };
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
