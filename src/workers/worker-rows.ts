/**
 * Makes the rows of workers equal to those that run. Rows come first: a worker that runs without a row is an orphan and is stopped, a row
 * without a worker is deleted. Of workers whose endpoints are another platform's, rows are that one's, and none runs here.
 */
import type { IsMine } from "../domain/own-endpoints.ts";
import type { WorkerDriver } from "../drivers/worker-driver.ts";
import type { Store, Worker } from "../store/store.ts";

interface WorkerRowsDeps {
  readonly driver: Pick<WorkerDriver, "list" | "stop">;
  readonly store: Pick<Store, "workers">;
  readonly isMine: IsMine;
  /** Has a row soon. */
  readonly isStarting: (workerId: string) => boolean;
  /** It is not there any more; its row is. */
  readonly gone: (row: Worker) => Promise<void>;
}

/** Idempotent. Resolves false, and gives nobody up, while the driver cannot tell who runs. */
export async function reconcileRows({ driver, store, isMine, isStarting, gone }: WorkerRowsDeps): Promise<boolean> {
  const rows = (await store.workers.list()).filter(({ endpointId }) => isMine(endpointId));
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
    if (row === undefined || !isMine(row.endpointId)) await driver.stop(id, 0);
  }
  return true;
}
