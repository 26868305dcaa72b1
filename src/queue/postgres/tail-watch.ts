/** For a platform that has nobody beside it: a replica looks with each of its beats (takeover.ts). */
import { REPLICA_BEAT_MS } from "../../domain/limits.ts";
import type { PostgresCore } from "./core.ts";
import { hasTail } from "./journal.ts";

/** Looks whether the database still has the last batch, also while nothing is written. Returns how to stop. */
export function watchTail(core: PostgresCore): () => void {
  let isLooking = false;
  async function look(): Promise<void> {
    const { writer, n } = core.last;
    if (isLooking || n === 0 || core.db.outage !== undefined) return;
    isLooking = true;
    try {
      const [row] = await core.db.read<{ there: boolean }>(`SELECT ${hasTail("$1", "$2")} AS there`, [writer, n]);
      if (!row!.there) core.tailLost(n);
    } catch {
      // The database is away; what it has is seen when it is back.
    } finally {
      isLooking = false;
    }
  }
  const timer = setInterval(look, REPLICA_BEAT_MS).unref();
  return () => clearInterval(timer);
}
