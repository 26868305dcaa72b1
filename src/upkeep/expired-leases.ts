import { LEASE_CHECK_MS, STANDSTILL_MS } from "../domain/limits.ts";
import { Standstill } from "../lib/standstill.ts";
import type { JobUpkeep } from "../queue/queue.ts";

/**
 * Takes jobs from workers that were not heard of for the length of a lease, every LEASE_CHECK_MS. After a standstill one
 * round is left out: the leases of workers that lived on are renewed before the next.
 */
export function expiredLeases(queue: Pick<JobUpkeep, "expireLeases">, monotonic?: () => number): () => Promise<number> {
  const standstill = new Standstill(LEASE_CHECK_MS + STANDSTILL_MS, monotonic);
  return async () => (standstill.happened() ? 0 : queue.expireLeases());
}
