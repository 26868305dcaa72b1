/** Those who wait for a job look at it again when it is not where they looked for it. */
import type { Waiters } from "../machine/waiters.ts";
import type { Connections } from "./connection.ts";
import { inShards } from "./ownership.ts";

interface Waited {
  readonly db: Pick<Connections, "read">;
  readonly finals: Waiters;
  readonly chunks: Waiters;
}

/** For jobs of these shards, which are another's now: that one may have ended them by the time this looks. */
export async function wakeMoved(waited: Waited, shards: readonly number[]): Promise<void> {
  await wakeUnless(waited, `NOT (${inShards("seq", shards)})`);
}

/** For jobs that are not there any more, or are over. */
export async function wakeGone(waited: Waited): Promise<void> {
  await wakeUnless(waited, "true");
}

/** All but those of jobs that are open, and of which this holds. */
async function wakeUnless(waited: Waited, condition: string): Promise<void> {
  const ids = waitedFor(waited);
  if (ids.length === 0) return;
  const sql = `SELECT id FROM open_jobs WHERE id = ANY($1) AND ${condition}`;
  const stay = new Set((await waited.db.read<{ id: string }>(sql, [ids])).map(({ id }) => id));
  wake(
    waited,
    ids.filter((id) => !stay.has(id)),
  );
}

function waitedFor({ finals, chunks }: Waited): string[] {
  return [...new Set([...finals.jobIds(), ...chunks.jobIds()])];
}

function wake({ finals, chunks }: Waited, ids: readonly string[]): void {
  for (const id of ids) {
    finals.notify(id);
    chunks.notify(id);
  }
}
