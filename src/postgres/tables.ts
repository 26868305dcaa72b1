/** Tables that are there before the steps of migrations are, for what those wait for. */
import type { Postgres } from "./postgres.ts";

const UNIQUE_VIOLATION = "23505";

export async function hasTable(postgres: Postgres, name: string): Promise<boolean> {
  const { rows } = await postgres.query("SELECT to_regclass($1) AS there", [name]);
  return rows[0].there !== null;
}

/** A table that is there stays as it is. */
export async function makeTable(postgres: Postgres, name: string, columns: string): Promise<void> {
  if (await hasTable(postgres, name)) return;
  try {
    await postgres.query(`CREATE TABLE IF NOT EXISTS ${name} (${columns})`);
  } catch (error) {
    // Two that make it at once collide in PostgreSQL's own tables.
    if ((error as { code?: string }).code !== UNIQUE_VIOLATION) throw error;
  }
}
