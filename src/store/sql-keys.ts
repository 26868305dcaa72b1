import type { KeyScope } from "../domain/api-key.ts";
import type { Session } from "./sql-store.ts";
import type { ApiKey, KeyRepository } from "./store.ts";
import type { Tables } from "./tables.ts";

function read(row: Tables["apiKeys"]): ApiKey {
  return { ...row, scopes: JSON.parse(row.scopes) as KeyScope[] };
}

export function keyRepository({ db, changed, guard }: Session): KeyRepository {
  return {
    async findByHash(hash) {
      const row = await db.selectFrom("apiKeys").selectAll().where("hash", "=", hash).executeTakeFirst();
      return row && read(row);
    },
    async list() {
      return (await db.selectFrom("apiKeys").selectAll().orderBy("createdAt").orderBy("id").execute()).map(read);
    },
    async insert(key) {
      await guard(
        "The key exists already.",
        db
          .insertInto("apiKeys")
          .values({ ...key, scopes: JSON.stringify(key.scopes) })
          .execute(),
      );
      changed({ table: "keys", id: key.id });
    },
    async touch(id, usedAt) {
      await db.updateTable("apiKeys").set({ lastUsedAt: usedAt }).where("id", "=", id).execute();
    },
    async delete(id) {
      await db.deleteFrom("apiKeys").where("id", "=", id).execute();
      changed({ table: "keys", id });
    },
  };
}
