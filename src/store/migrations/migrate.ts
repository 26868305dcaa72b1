import { type Kysely, type Migration, Migrator } from "kysely";
import { initial } from "./0001-initial.ts";
import { releasesKeysSecrets } from "./0002-releases-keys-secrets.ts";
import { loadBalanced } from "./0003-load-balanced.ts";
import { gpuFractions } from "./0004-gpu-fractions.ts";
import { templates } from "./0005-templates.ts";

/** In order; a migration that was released is never changed. */
const MIGRATIONS: Readonly<Record<string, Migration>> = {
  "0001-initial": initial,
  "0002-releases-keys-secrets": releasesKeysSecrets,
  "0003-load-balanced": loadBalanced,
  "0004-gpu-fractions": gpuFractions,
  "0005-templates": templates,
};

/** Brings the store's tables to the newest shape. Throws when a migration fails; that migration is then undone. */
export async function migrate<T>(db: Kysely<T>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...MIGRATIONS }) } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
}
