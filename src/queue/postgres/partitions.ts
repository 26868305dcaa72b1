/** Partitions of final jobs: one for each day of submission, made ahead, dropped when nothing is left in it. */
import type { Query } from "./connection.ts";

const DAY_MS = 24 * 3_600_000;
/** Another platform made it, or jobs of that day lie in the rest already. */
const THERE = new Set(["42P07", "23514"]);

/** `seqAt`: the first number of a moment. */
export async function rollPartitions(query: Query, now: number, seqAt: (ms: number) => number): Promise<void> {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const parts = await query<{ name: string }>(
    "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'done_jobs'::regclass",
  );
  const names = new Set(parts.map(({ name }) => name));
  for (const day of [today, today + DAY_MS]) {
    if (names.has(nameOf(day))) continue;
    try {
      await query(
        `CREATE TABLE ${nameOf(day)} PARTITION OF done_jobs FOR VALUES FROM (${seqAt(day)}) TO (${seqAt(day + DAY_MS)})`,
      );
    } catch (error) {
      if (!THERE.has((error as { code?: string }).code ?? "")) throw error;
    }
  }
  for (const name of names) {
    if (!/^done_jobs_\d{8}$/.test(name) || name >= nameOf(today)) continue;
    const [row] = await query(`SELECT 1 FROM ${name} LIMIT 1`);
    if (row === undefined) await query(`DROP TABLE ${name}`);
  }
}

function nameOf(day: number): string {
  return `done_jobs_${new Date(day).toISOString().slice(0, 10).replaceAll("-", "")}`;
}
