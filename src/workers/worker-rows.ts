/**
 * Makes the rows of workers equal to those that run. Rows come first: a worker that runs without a row is an orphan and is stopped, a row
 * without a worker is deleted. Of workers whose endpoints are another platform's, rows are that one's, and none runs here.
 */
import { setTimeout as delay } from "node:timers/promises";
import { CANCEL_GRACE_MS, STOP_POLL_MS } from "../domain/limits.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import type { WorkerDriver } from "../drivers/worker-driver.ts";
import type { Store, Worker } from "../store/store.ts";

interface WorkerRowsDeps {
  readonly driver: Pick<WorkerDriver, "list" | "stop" | "endsAstray">;
  readonly store: Pick<Store, "workers">;
  readonly isMine: IsMine;
  /** Has a row soon. */
  readonly isStarting: (workerId: string) => boolean;
  /** It is not there any more; its row is. */
  readonly gone: (row: Worker) => Promise<void>;
}

/** Of workers of this platform's endpoints. */
export async function ownRows({ store, isMine }: Pick<WorkerRowsDeps, "store" | "isMine">): Promise<Worker[]> {
  return (await store.workers.list()).filter(({ endpointId }) => isMine(endpointId));
}

/** Idempotent. Resolves false, and gives nobody up, while the driver cannot tell who runs. */
export async function reconcileRows({ driver, store, isMine, isStarting, gone }: WorkerRowsDeps): Promise<boolean> {
  const rows = await ownRows({ store, isMine });
  const listed = await driver.list();
  if (listed === undefined) return false;
  const alive = new Set(listed);
  for (const row of rows) {
    if (alive.has(row.id) || isStarting(row.id) || !isMine(row.endpointId)) continue;
    await gone(row);
  }
  const known = new Set(rows.map((row) => row.id));
  for (const id of alive) {
    if (known.has(id) || isStarting(id)) continue;
    const row = await store.workers.find(id);
    if (row !== undefined && isMine(row.endpointId)) continue;
    const graceMs = row === undefined ? 0 : CANCEL_GRACE_MS;
    if (driver.endsAstray?.(id, row !== undefined) ?? true) await driver.stop(id, graceMs);
  }
  return true;
}

/** Resolves when none runs, or of machines that others have workers on none of `rows`, or when the time is over. */
export async function untilEnded(
  { driver, now }: { readonly driver: Pick<WorkerDriver, "list" | "endsAstray">; readonly now: () => number },
  graceMs: number,
  hurry: AbortSignal,
  rows: readonly Worker[],
): Promise<void> {
  const own = driver.endsAstray && new Set(rows.map(({ id }) => id));
  const end = now() + graceMs;
  const run = async () => (await driver.list())?.some((id) => own?.has(id) ?? true);
  while (now() < end && !hurry.aborted && (await run())) await delay(STOP_POLL_MS);
}
