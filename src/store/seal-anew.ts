/** What is sealed with an older key is sealed with the newest, so that the older one can be thrown away. */
import type { Kysely } from "kysely";
import { registryLabel } from "../domain/registry.ts";
import { secretLabel } from "../domain/secret.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import type { Postgres } from "../postgres/postgres.ts";
import { sealLoginsAnew } from "./postgres-logins.ts";
import { WRITER_LOCK } from "./postgres-migrations.ts";
import { postgresRecords } from "./postgres-store.ts";
import { sealEnvAnew } from "./sealed-env.ts";
import { sqliteRecords } from "./sqlite-store.ts";
import type { Tables } from "./tables.ts";

export interface SealedAnew {
  readonly renewed: number;
  /** None of the keys opens them. They stay as they are. */
  readonly unreadable: number;
}

export async function sealSqliteAnew(database: SqliteDatabase, seal: SealedText): Promise<SealedAnew> {
  const { connection } = database;
  // The old bytes are overwritten, also in the log.
  connection.exec("PRAGMA secure_delete = ON");
  try {
    return await sqliteRecords(database)
      .transaction()
      .execute((all) => sealAllAnew(all, seal));
  } finally {
    connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    connection.exec("PRAGMA secure_delete = OFF");
  }
}

export async function sealPostgresAnew(postgres: Postgres, seal: SealedText): Promise<SealedAnew> {
  return postgresRecords(postgres)
    .transaction()
    .execute(async (all) => {
      await WRITER_LOCK.execute(all);
      return sealAllAnew(all, seal, sealLoginsAnew);
    });
}

async function sealAllAnew(
  db: Kysely<Tables>,
  seal: SealedText,
  more?: (db: Kysely<Tables>, anew: (sealed: string, label: string) => string | undefined) => Promise<void>,
): Promise<SealedAnew> {
  const counts = { renewed: 0, unreadable: 0 };
  const anew = (sealed: string, label: string): string | undefined => {
    try {
      const renewed = seal.sealedAnew(sealed, label);
      if (renewed !== undefined) counts.renewed++;
      return renewed;
    } catch {
      counts.unreadable++;
      return undefined;
    }
  };
  for (const { environmentId, name, sealed } of await db.selectFrom("secrets").selectAll().execute()) {
    const renewed = anew(sealed, secretLabel(environmentId, name));
    if (renewed === undefined) continue;
    const row = db.updateTable("secrets").where("environmentId", "=", environmentId).where("name", "=", name);
    await row.set({ sealed: renewed }).execute();
  }
  for (const { id, sealed } of await db.selectFrom("registryAuths").select(["id", "sealed"]).execute()) {
    const renewed = anew(sealed, registryLabel(id));
    if (renewed === undefined) continue;
    await db.updateTable("registryAuths").where("id", "=", id).set({ sealed: renewed }).execute();
  }
  await sealEnvAnew(db, anew);
  await more?.(db, anew);
  return counts;
}
