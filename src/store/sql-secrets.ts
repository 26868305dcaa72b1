import type { Session } from "./sql-store.ts";
import type { SecretRepository } from "./store.ts";

export function secretRepository({ db, guard }: Session): SecretRepository {
  return {
    listByEnvironment: (environmentId) =>
      db.selectFrom("secrets").selectAll().where("environmentId", "=", environmentId).orderBy("name").execute(),
    async save(secret) {
      const { sealed, updatedAt } = secret;
      await guard(
        "The environment is gone.",
        db
          .insertInto("secrets")
          .values(secret)
          .onConflict((conflict) => conflict.columns(["environmentId", "name"]).doUpdateSet({ sealed, updatedAt }))
          .execute(),
      );
    },
    async delete(environmentId, name) {
      const { numDeletedRows } = await db
        .deleteFrom("secrets")
        .where("environmentId", "=", environmentId)
        .where("name", "=", name)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },
  };
}
