import type { KeyScope } from "../domain/api-key.ts";
import type { Session } from "./session.ts";
import type { ApiKey, ConsoleSessionRepository, KeyRepository, SecretRepository } from "./store.ts";
import type { Tables } from "./tables.ts";

function read(row: Tables["apiKeys"]): ApiKey {
  return { ...row, scopes: JSON.parse(row.scopes) as KeyScope[] };
}

export function keyRepository({ db, changed, guard }: Session): KeyRepository {
  return {
    async find(id) {
      const row = await db.selectFrom("apiKeys").selectAll().where("id", "=", id).executeTakeFirst();
      return row && read(row);
    },
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
      await changed({ table: "keys", id: key.id });
    },
    async touch(id, usedAt) {
      await db.updateTable("apiKeys").set({ lastUsedAt: usedAt }).where("id", "=", id).execute();
    },
    async delete(id) {
      await db.deleteFrom("apiKeys").where("id", "=", id).execute();
      await changed({ table: "keys", id });
    },
  };
}

export function consoleSessionRepository({ db, changed }: Session): ConsoleSessionRepository {
  return {
    findByHash: (hash) => db.selectFrom("consoleSessions").selectAll().where("hash", "=", hash).executeTakeFirst(),
    async insert(session, keptMax) {
      const { keyId, createdAt } = session;
      await db.deleteFrom("consoleSessions").where("expiresAt", "<=", createdAt).execute();
      const newest = db.selectFrom("consoleSessions").select("id").where("keyId", "=", keyId);
      const kept = newest
        .orderBy("createdAt", "desc")
        .orderBy("id")
        .limit(keptMax - 1);
      await db.deleteFrom("consoleSessions").where("keyId", "=", keyId).where("id", "not in", kept).execute();
      await db.insertInto("consoleSessions").values(session).execute();
      await changed({ table: "keys", id: keyId });
    },
    async delete({ id, keyId }) {
      await db.deleteFrom("consoleSessions").where("id", "=", id).execute();
      await changed({ table: "keys", id: keyId });
    },
  };
}

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
