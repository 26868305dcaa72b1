import { CamelCasePlugin, Kysely } from "kysely";
import { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import type { Postgres } from "../postgres/postgres.ts";
import { isConstraintError } from "../postgres/problems.ts";
import { hasTable } from "../postgres/tables.ts";
import { ChangeFeed } from "./change-feed.ts";
import { migrate, POSTGRES_STEPS } from "./migrations.ts";
import { postgresDialect } from "./postgres-dialect.ts";
import { WRITER_LOCK } from "./postgres-migrations.ts";
import { EnvColumn } from "./sealed-env.ts";
import { type ChangeListener, createSqlStore, tellAll } from "./sql-store.ts";
import type { Store, StoreChange } from "./store.ts";
import type { Tables } from "./tables.ts";

export interface PostgresStore extends Store {
  /** Resolves when all that was committed before the call, by whomever, has been told to those who listen. */
  caughtUp(): Promise<void>;
}

/**
 * The store in PostgreSQL, its tables migrated; several may be open on one database at once. close() leaves the connections open: whoever
 * opened them closes them. `seal` keeps the values of variables. Throws DATABASE_REFUSED for tables of a newer version.
 */
export async function openPostgresStore(postgres: Postgres, seal?: SealedText): Promise<PostgresStore> {
  const db = postgresRecords(postgres);
  await refuseNewer(postgres);
  await migrate(db);
  const listeners: ChangeListener[] = [];
  const feed = new ChangeFeed(
    postgres,
    async ({ kind, id }): Promise<StoreChange> => {
      if (kind === "endpoints") return { table: kind, id, endpoint: await store.endpoints.find(id) };
      if (kind === "hosts") return { table: kind, id, host: await store.hosts.find(id) };
      return { table: kind, id };
    },
    (change) => tellAll(listeners, [change]),
  );
  const store = createSqlStore(db, new EnvColumn(seal), {
    isConstraintError,
    lock: async (trx) => void (await WRITER_LOCK.execute(trx)),
    onChange: (listener) => void listeners.push(listener),
    committed: (changes) => feed.announce(changes),
  });
  await feed.open();
  return {
    ...store,
    caughtUp: () => feed.look(),
    async close() {
      // Who still asks is told by the pool, once that is closed, that the platform ends.
      await feed.close();
    },
  };
}

/** The records as their rows are. */
export function postgresRecords(postgres: Postgres): Kysely<Tables> {
  return new Kysely({
    dialect: postgresDialect(postgres),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
}

async function refuseNewer(postgres: Postgres): Promise<void> {
  if (!(await hasTable(postgres, "kysely_migration"))) return;
  const { rows } = await postgres.query<{ name: string }>("SELECT name FROM kysely_migration ORDER BY name");
  const unknown = rows.filter(({ name }) => !POSTGRES_STEPS.includes(name));
  if (unknown.length === 0) return;
  throw new SvcError(
    "DATABASE_REFUSED",
    `The database was used by a newer svc and cannot be read by this one (${VERSION}).`,
    {
      where: postgres.name,
      help: "Install that version again, or go back to a backup of the database from before it.",
    },
  );
}
