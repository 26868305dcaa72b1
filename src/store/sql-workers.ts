import type { Session } from "./sql-store.ts";
import type { WorkerRepository } from "./store.ts";

export function workerRepository({ db, changed, guard }: Session): WorkerRepository {
  const all = () => db.selectFrom("workers").selectAll().orderBy("createdAt").orderBy("id");
  return {
    find: (id) => db.selectFrom("workers").selectAll().where("id", "=", id).executeTakeFirst(),
    findByToken: (tokenHash) =>
      db.selectFrom("workers").selectAll().where("tokenHash", "=", tokenHash).executeTakeFirst(),
    list: () => all().execute(),
    listByEndpoint: (endpointId) => all().where("endpointId", "=", endpointId).execute(),
    async insert(worker) {
      await guard(
        "The worker exists already, or its endpoint is gone.",
        db.insertInto("workers").values(worker).execute(),
      );
      changed({ table: "workers", id: worker.id });
    },
    async update(id, changes) {
      const query = db.updateTable("workers").where("id", "=", id);
      const { numUpdatedRows } = await query.set(Object.keys(changes).length > 0 ? changes : { id }).executeTakeFirst();
      if (numUpdatedRows === 0n) return false;
      changed({ table: "workers", id });
      return true;
    },
    async delete(id) {
      await db.deleteFrom("workers").where("id", "=", id).execute();
      changed({ table: "workers", id });
    },
  };
}
