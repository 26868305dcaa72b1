/**
 * Partitions of final jobs: one for each day of submission, made ahead, dropped when nothing is left in it. Several platforms may do so at
 * once, while others write. Both take the lock of a whole table; whoever reads all tables, such as a backup, would hold them up, and they
 * all others: they wait for a moment only, and the next look tries again.
 */
import { PARTITION_LOCK_MAX_MS } from "../../domain/limits.ts";
import type { Query } from "./connection.ts";

const DAY_MS = 24 * 3_600_000;
const LOCKED = "55P03";
/** Another platform made it, before or just now, or jobs of that day lie in the rest already. */
const THERE = new Set(["42P07", "23505", "42P17", "23514", LOCKED]);
/** Another dropped it. */
const GONE = new Set(["42P01", LOCKED]);

/** `seqAt`: the first number of a moment. */
export async function rollPartitions(query: Query, now: number, seqAt: (ms: number) => number): Promise<void> {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const parts = await query<{ name: string }>(
    "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'done_jobs'::regclass",
  );
  const names = new Set(parts.map(({ name }) => name));
  for (const day of [today, today + DAY_MS]) {
    if (names.has(nameOf(day))) continue;
    const bounds = `FROM (${seqAt(day)}) TO (${seqAt(day + DAY_MS)})`;
    await query(quick(`CREATE TABLE ${nameOf(day)} PARTITION OF done_jobs FOR VALUES ${bounds};`)).catch(unless(THERE));
  }
  for (const name of names) {
    if (!/^done_jobs_\d{8}$/.test(name) || name >= nameOf(today)) continue;
    const rows = await query(`SELECT 1 FROM ${name} LIMIT 1`).catch(unless(GONE));
    if (rows?.length === 0) await query(dropEmpty(name)).catch(unless(GONE));
  }
}

/** A job of that day may end just now: whoever writes one has the lock of the whole table until it is written. */
function dropEmpty(name: string): string {
  return quick(`LOCK TABLE ONLY done_jobs IN ACCESS EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT FROM ${name}) THEN DROP TABLE ${name}; END IF;`);
}

function quick(statements: string): string {
  return `DO $$ BEGIN
    PERFORM set_config('lock_timeout', '${PARTITION_LOCK_MAX_MS}', true);
    ${statements}
  END $$`;
}

function nameOf(day: number): string {
  return `done_jobs_${new Date(day).toISOString().slice(0, 10).replaceAll("-", "")}`;
}

function unless(codes: ReadonlySet<string>): (error: { code?: string }) => undefined {
  return (error) => {
    if (!codes.has(error.code ?? "")) throw error;
  };
}
