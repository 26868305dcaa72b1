/** Those who wait for a job look at it again when it is not where they looked for it. */
import type { Waiters } from "../machine/waiters.ts";
import type { Connections } from "./connection.ts";
import { inShards } from "./ownership.ts";

interface Waited {
  readonly db: Pick<Connections, "read">;
  readonly finals: Waiters;
  readonly chunks: Waiters;
}

/** For jobs of these shards: they are another's now. */
export async function wakeMoved(waited: Waited, shards: readonly number[]): Promise<void> {
  wake(waited, await among(waited, `SELECT id FROM open_jobs WHERE id = ANY($1) AND ${inShards("seq", shards)}`));
}

/** For jobs that are not there any more, or are over. */
export async function wakeGone(waited: Waited): Promise<void> {
  const there = new Set(await among(waited, "SELECT id FROM open_jobs WHERE id = ANY($1)"));
  wake(
    waited,
    waitedFor(waited).filter((id) => !there.has(id)),
  );
}

async function among(waited: Waited, sql: string): Promise<string[]> {
  const ids = waitedFor(waited);
  return ids.length === 0 ? [] : (await waited.db.read<{ id: string }>(sql, [ids])).map(({ id }) => id);
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
