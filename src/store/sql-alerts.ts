import type { AlertRecord, AlertRepository } from "./alerts.ts";
import type { Session } from "./session.ts";
import type { Tables } from "./tables.ts";

export function alertRepository({ db }: Session): AlertRepository {
  const read = (row: Tables["alerts"]): AlertRecord => ({
    ...row,
    firing: row.firing === 1,
    messages: JSON.parse(row.messages) as string[],
  });
  const written = ({ firing, messages, ...rest }: Partial<AlertRecord>) => ({
    ...rest,
    ...(firing !== undefined && { firing: Number(firing) }),
    ...(messages !== undefined && { messages: JSON.stringify(messages) }),
  });
  return {
    async find(id) {
      const row = await db.selectFrom("alerts").selectAll().where("id", "=", id).executeTakeFirst();
      return row && read(row);
    },
    async list() {
      return (await db.selectFrom("alerts").selectAll().orderBy("createdAt").orderBy("id").execute()).map(read);
    },
    async insert(alert) {
      await db
        .insertInto("alerts")
        .values(written(alert) as Tables["alerts"])
        .execute();
    },
    async update(id, changes, seen) {
      const { numUpdatedRows } = await db
        .updateTable("alerts")
        .set(written(changes))
        .where("id", "=", id)
        .where("firing", "=", Number(seen.firing))
        .where("messages", "=", JSON.stringify(seen.messages))
        .where("dueAt", "=", seen.dueAt)
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    },
    async delete(id) {
      const { numDeletedRows } = await db.deleteFrom("alerts").where("id", "=", id).executeTakeFirst();
      return numDeletedRows > 0n;
    },
  };
}
