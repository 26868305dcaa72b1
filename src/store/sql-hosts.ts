import { JOIN_TOKENS_MAX } from "../domain/limits.ts";
import type { HostRepository, HostRow, HostTokenRow, JoinRefusal } from "./hosts.ts";
import type { Session } from "./session.ts";
import type { Tables } from "./tables.ts";

type Db = Session["db"];

function readHost(row: Tables["hosts"]): HostRow {
  const labels = JSON.parse(row.labels) as string[];
  return { ...row, labels, sharedVolumes: row.sharedVolumes === 1, draining: row.draining === 1 };
}

function writtenHost(host: HostRow): Tables["hosts"] {
  const { labels, sharedVolumes, draining } = host;
  return { ...host, labels: JSON.stringify(labels), sharedVolumes: Number(sharedVolumes), draining: Number(draining) };
}

function readToken(row: Tables["hostTokens"]): HostTokenRow {
  return { ...row, reusable: row.reusable === 1 };
}

export function hostRepository({ db, changed, alone }: Session): HostRepository {
  const where = async (column: "id" | "secretHash", value: string) => {
    const row = await db.selectFrom("hosts").selectAll().where(column, "=", value).executeTakeFirst();
    return row && readHost(row);
  };
  return {
    async join(tokenHash, now, host) {
      const joined = await alone((trx) => join(trx, tokenHash, now, host));
      if (typeof joined !== "string") await changed({ table: "hosts", id: joined.id, host: joined });
      return joined;
    },
    async admit(host) {
      const admitted = await alone((trx) => admit(trx, host));
      if (typeof admitted !== "string") await changed({ table: "hosts", id: admitted.id, host: admitted });
      return admitted;
    },
    async hold(id, holder) {
      const { numUpdatedRows } = await db
        .updateTable("hosts")
        .set({ holder })
        .where("id", "=", id)
        .where("holder", "in", ["", holder])
        .executeTakeFirst();
      const host = await where("id", id);
      if (numUpdatedRows === 0n || host === undefined) return false;
      await changed({ table: "hosts", id, host });
      return true;
    },
    findBySecret: (secretHash) => where("secretHash", secretHash),
    find: (id) => where("id", id),
    async list() {
      return (await db.selectFrom("hosts").selectAll().orderBy("name").execute()).map(readHost);
    },
    async setDraining(id, draining) {
      await db
        .updateTable("hosts")
        .set({ draining: Number(draining) })
        .where("id", "=", id)
        .execute();
      const host = await where("id", id);
      if (host !== undefined) await changed({ table: "hosts", id, host });
      return host !== undefined;
    },
    async seen(id, at, facts) {
      const before = await where("id", id);
      if (before === undefined) return;
      const { labels, arch, version, driver, sharedVolumes } = facts;
      const host = { ...before, labels, arch, version, driver, sharedVolumes, lastSeenAt: at };
      await db.updateTable("hosts").set(writtenHost(host)).where("id", "=", id).execute();
      const isSame = JSON.stringify({ ...host, lastSeenAt: before.lastSeenAt }) === JSON.stringify(before);
      if (!isSame) await changed({ table: "hosts", id, host });
    },
    async remove(id) {
      const { numDeletedRows } = await db.deleteFrom("hosts").where("id", "=", id).executeTakeFirst();
      if (numDeletedRows > 0n) await changed({ table: "hosts", id, host: undefined });
      return numDeletedRows > 0n;
    },
    async createToken(token) {
      const { createdAt: now } = token;
      const kept = db.selectFrom("hostTokens").select("id").orderBy("createdAt", "desc").limit(JOIN_TOKENS_MAX);
      await db
        .deleteFrom("hostTokens")
        .where("id", "not in", kept)
        .where((or) =>
          or.or([or("expiresAt", "<=", now), or("revokedAt", "is not", null), or("usedAt", "is not", null)]),
        )
        .where((or) => or.or([or("reusable", "=", 0), or("expiresAt", "<=", now), or("revokedAt", "is not", null)]))
        .execute();
      await db
        .insertInto("hostTokens")
        .values({ ...token, reusable: Number(token.reusable) })
        .execute();
    },
    async listTokens() {
      const newestFirst = db.selectFrom("hostTokens").selectAll().orderBy("createdAt", "desc").orderBy("id");
      return (await newestFirst.execute()).map(readToken);
    },
    async revokeToken(id, at) {
      const { numUpdatedRows } = await db
        .updateTable("hostTokens")
        .set({ revokedAt: at })
        .where("id", "=", id)
        .where("revokedAt", "is", null)
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    },
  };
}

async function join(db: Db, tokenHash: string, now: number, host: HostRow): Promise<HostRow | JoinRefusal> {
  const found = await db.selectFrom("hostTokens").selectAll().where("tokenHash", "=", tokenHash).executeTakeFirst();
  const refusal = refusalOf(found && readToken(found), now, host.name);
  if (refusal !== undefined) return refusal;
  const taken = await db.selectFrom("hosts").select("id").where("name", "=", host.name).executeTakeFirst();
  if (taken !== undefined) return "name-taken";
  await db.updateTable("hostTokens").set({ usedAt: now }).where("tokenHash", "=", tokenHash).execute();
  await db.insertInto("hosts").values(writtenHost(host)).execute();
  return host;
}

async function admit(db: Db, host: HostRow): Promise<HostRow | "name-taken"> {
  const same = await db.selectFrom("hosts").selectAll().where("name", "=", host.name).executeTakeFirst();
  if (same !== undefined && same.pod !== host.pod) return "name-taken";
  if (same === undefined) await db.insertInto("hosts").values(writtenHost(host)).execute();
  else await db.updateTable("hosts").set({ secretHash: host.secretHash }).where("id", "=", same.id).execute();
  return same === undefined ? host : { ...readHost(same), secretHash: host.secretHash };
}

function refusalOf(token: HostTokenRow | undefined, now: number, name: string): JoinRefusal | undefined {
  if (token === undefined) return "unknown";
  if (token.revokedAt !== null) return "revoked";
  if (token.usedAt !== null && !token.reusable) return "used";
  if (token.expiresAt !== null && now >= token.expiresAt) return "expired";
  if (token.name !== "" && token.name !== name) return "other-name";
  return undefined;
}
