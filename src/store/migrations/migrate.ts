import { type Kysely, type Migration, Migrator } from "kysely";
import { initial } from "./0001-initial.ts";

/** In order; a migration that was released is never changed. */
const MIGRATIONS: Readonly<Record<string, Migration>> = { "0001-initial": initial };

/** Brings the store's tables to the newest shape. Throws when a migration fails; that migration is then undone. */
export async function migrate<T>(db: Kysely<T>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...MIGRATIONS }) } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}
