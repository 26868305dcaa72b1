/**
 * The queue on the platform's SQLite file. All changes of one turn of the event loop are one transaction, and a
 * promise resolves after its commit. The parts are under sqlite/; docs/reference/durability.md says what survives what.
 */
import { SvcError } from "../domain/errors.ts";
import { type StorageWatch, UNWATCHED } from "../domain/storage.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import { boundsWith, type QueueBounds } from "./machine/machine.ts";
import { StoredBodies } from "./machine/stored-bodies.ts";
import type { JobQueue } from "./queue.ts";
import { BodyFiles, placeOf } from "./sqlite/body-files.ts";
import { queueChanges } from "./sqlite/changes.ts";
import { QueueCore } from "./sqlite/core.ts";
import { queueOutbox } from "./sqlite/outbox.ts";
import { queueProgress } from "./sqlite/progress.ts";
import { queueReads } from "./sqlite/reads.ts";
import { migrateQueue } from "./sqlite/schema.ts";
import { searchJobs } from "./sqlite/search.ts";
import { queueTicks } from "./sqlite/ticks.ts";
import { queueUpkeep } from "./sqlite/upkeep.ts";

export interface SqliteQueueOptions {
  readonly database: SqliteDatabase;
  /** Directory for bodies above INLINE_BODY_MAX_BYTES; made when it is missing. */
  readonly blobDir: string;
  /** Milliseconds since the epoch: times that people see and that survive a restart. */
  readonly clock: () => number;
  /** Milliseconds of a clock that is never set: leases. */
  readonly monotonic?: () => number;
  readonly bounds?: Partial<QueueBounds>;
  readonly storage?: StorageWatch;
}

/** close() leaves the database open: whoever opened it closes it. */
export async function openSqliteQueue(options: SqliteQueueOptions): Promise<JobQueue> {
  const { database, blobDir, clock, monotonic = () => performance.now(), bounds, storage = UNWATCHED } = options;
  migrateQueue(database.connection);
  const files = new BodyFiles(blobDir, database.durability === "full");
  const core = new QueueCore(database, files, { clock, monotonic }, boundsWith(bounds), storage);
  const bodies = new StoredBodies(core, placeOf(core));
  const reads = queueReads(core);
  const changes = queueChanges(core, bodies);
  storage.onReturn(() => goOn(core));
  return {
    ...changes,
    ...reads,
    ...queueProgress(core, bodies),
    ...queueOutbox(core),
    ...queueTicks(core),
    ...queueUpkeep(core, bodies),

    search: (search) => searchJobs(core, search),
    wakeDelayed: () => core.delays.wake(),

    async cancel(jobId) {
      await changes.cancel(jobId);
      return reads.find(jobId);
    },

    events: core.events,

    async close() {
      await bodies.idle();
      core.close(new SvcError("SHUTTING_DOWN", "The queue is closed."));
      // The last batch waits for whoever holds the connection.
      await database.lock();
      database.unlock();
      // Those who waited read their job once more before the database goes.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/** Storing works again: no lease could be renewed meanwhile, and claims may have waited while jobs came back. */
function goOn(core: QueueCore): void {
  for (const job of core.live.running.values()) job.leaseUntil = core.live.lease();
  const first = core.keep(() => {
    for (const endpoint of core.live.endpoints.values()) {
      if (endpoint.claims.length > 0 && endpoint.inQueue > 0) core.touch(endpoint);
    }
  });
  first.catch(() => {}); // Only a queue that closes gives up: what it holds is looked at again at the next start.
}
