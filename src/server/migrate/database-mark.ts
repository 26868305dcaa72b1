/** What a database is found to hold when a platform is to be moved there or from there, and the mark of a move in it. */
import { setTimeout as pause } from "node:timers/promises";
import { SvcError } from "../../domain/errors.ts";
import { OWNER_BEAT_MS, OWNER_SILENT_MS } from "../../domain/limits.ts";
import { PlatformOwner } from "../../postgres/owner.ts";
import type { Postgres } from "../../postgres/postgres.ts";
import { hasTable, makeTable } from "../../postgres/tables.ts";
import { POSTGRES_STEPS } from "../../store/migrations.ts";

const TABLE = "platform_migration";
const COLUMNS = "one boolean PRIMARY KEY DEFAULT true CHECK (one), id text NOT NULL, words text NOT NULL, jobs text";
const OWN_TABLES = [TABLE, "platform_owner", "platform_replicas", "platform_identity"];
/** A row in one of them is of a platform. */
const FILLED = ["api_keys", "apps", "endpoints", "open_jobs", "done_jobs", "platform_identity"];
const TABLES_SHOWN = 3;

export interface Mark {
  readonly id: string;
  readonly words: string;
  /** JSON of how far its jobs are. */
  readonly jobs: string | null;
}

export async function readMark(postgres: Postgres): Promise<Mark | undefined> {
  if (!(await hasTable(postgres, TABLE))) return undefined;
  return (await postgres.query<Mark>(`SELECT id, words, jobs FROM ${TABLE}`)).rows[0];
}

export async function writeMark(postgres: Postgres, id: string, words: string): Promise<void> {
  await makeTable(postgres, TABLE, COLUMNS);
  await postgres.query(
    `INSERT INTO ${TABLE} (id, words) VALUES ($1, $2) ON CONFLICT (one) DO UPDATE SET id = excluded.id, words = excluded.words`,
    [id, words],
  );
}

/** Part of the transaction of a batch. */
export const KEEP_JOBS = `UPDATE ${TABLE} SET jobs = $1`;

export async function removeMark(postgres: Postgres): Promise<void> {
  await postgres.query(`DROP TABLE IF EXISTS ${TABLE}`);
}

/** For a platform that starts. Throws DATABASE_REFUSED. */
export async function refuseMarked(postgres: Postgres): Promise<void> {
  const mark = await readMark(postgres);
  if (mark === undefined) return;
  throw new SvcError("DATABASE_REFUSED", `The database cannot be used: ${mark.words}`, {
    where: postgres.name,
    help: "A move that has not ended goes on with svc platform migrate; after one that has, empty the database or use another (docs/operate/migrate.md).",
  });
}

/** Throws CONFLICT for a database that is not empty. Tables of extensions do not count. */
export async function refuseUsed(postgres: Postgres): Promise<void> {
  const { rows } = await postgres.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = to_regnamespace(current_schema())
       AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') ORDER BY 1`,
  );
  const names = rows.map(({ name }) => name);
  const others = names.filter((name) => !OWN_TABLES.includes(name));
  if (others.length > 0 && !(await isPlatform(postgres))) {
    const shown = others.slice(0, TABLES_SHOWN).join(", ") + (others.length > TABLES_SHOWN ? ", …" : "");
    throw new SvcError("CONFLICT", `The database holds tables that are not svc's: ${shown}.`, {
      where: postgres.name,
      help: "Make a database of its own for the platform.",
    });
  }
  for (const name of FILLED.filter((one) => names.includes(one))) {
    const { rows: found } = await postgres.query(`SELECT 1 FROM ${name} LIMIT 1`);
    if (found.length === 0) continue;
    throw new SvcError("CONFLICT", `The database holds another platform already (its table ${name} has rows).`, {
      where: postgres.name,
      help: "Name an empty database.",
    });
  }
}

/** Whether svc has made its tables there. */
export async function isPlatform(postgres: Postgres): Promise<boolean> {
  return (await stepsThere(postgres)).includes(POSTGRES_STEPS[0]!);
}

async function stepsThere(postgres: Postgres): Promise<readonly string[]> {
  if (!(await hasTable(postgres, "kysely_migration"))) return [];
  const { rows } = await postgres.query<{ name: string }>("SELECT name::text AS name FROM kysely_migration");
  return rows.map(({ name }) => name);
}

/** Throws CONFLICT unless the tables are those of this version. */
export async function requireCurrent(postgres: Postgres): Promise<void> {
  const there = new Set(await stepsThere(postgres));
  if (there.size === POSTGRES_STEPS.length && POSTGRES_STEPS.every((step) => there.has(step))) return;
  throw new SvcError(
    "CONFLICT",
    there.size === 0 ? "The database holds no platform." : "The database is of another version of svc.",
    { where: postgres.name, help: "Start this version on it once: svc platform start." },
  );
}

/** The caller's alone until it is closed. Throws CONFLICT when a platform, or another move, uses it. */
export async function ownDatabase(
  postgres: Postgres,
  home: string,
  place: string,
  lost: (error: SvcError) => void,
): Promise<PlatformOwner> {
  let other = "";
  const waits = (at: string) => {
    other = at;
  };
  const owner = new PlatformOwner(postgres, { home, place, waits, lost });
  const over = new AbortController();
  // One that beats is seen to beat by then; one that was killed is silent.
  const patience = pause(OWNER_SILENT_MS + 2 * OWNER_BEAT_MS, undefined, { signal: over.signal }).then(
    () => over.abort(),
    () => {},
  );
  try {
    await owner.take(over.signal);
    return owner;
  } catch (error) {
    await owner.close();
    if (other === "" || !over.signal.aborted) throw error;
    throw new SvcError("CONFLICT", `A platform uses the database: ${other}.`, {
      where: postgres.name,
      help: "Stop it first: svc platform stop, on its machine.",
    });
  } finally {
    over.abort();
    await patience;
  }
}
