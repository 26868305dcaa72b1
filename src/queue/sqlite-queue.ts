/**
 * The queue on the platform's SQLite file. All changes of one turn of the event loop are one transaction, and a
 * promise resolves after its commit. The parts are under sqlite/; docs/reference/durability.md says what survives what.
 */
import { SvcError } from "../domain/errors.ts";
import {
  BODIES_KEPT_MAX_BYTES,
  EXPIRED_KEPT_MAX_JOBS,
  FAILED_KEPT_MAX_JOBS,
  FAILED_RETENTION_MS,
  QUEUED_MAX_JOBS,
  STREAM_KEPT_MAX_BYTES,
  STREAMS_KEPT_MAX_BYTES,
} from "../domain/limits.ts";
import { type StorageWatch, UNWATCHED } from "../domain/storage.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import type { JobQueue } from "./queue.ts";
import { BodyFiles } from "./sqlite/body-files.ts";
import { queueChanges } from "./sqlite/changes.ts";
import { type QueueBounds, QueueCore } from "./sqlite/core.ts";
import { queueOutbox } from "./sqlite/outbox.ts";
import { queueProgress } from "./sqlite/progress.ts";
import { queueReads } from "./sqlite/reads.ts";
import { migrateQueue } from "./sqlite/schema.ts";
import { searchJobs } from "./sqlite/search.ts";
import { StoredBodies } from "./sqlite/stored-bodies.ts";
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

const BOUNDS_DEFAULT: QueueBounds = {
  queuedMax: QUEUED_MAX_JOBS,
  failedRetentionMs: FAILED_RETENTION_MS,
  failedKeptMax: FAILED_KEPT_MAX_JOBS,
  streamKeptMax: STREAM_KEPT_MAX_BYTES,
  streamsKeptMax: STREAMS_KEPT_MAX_BYTES,
  bodiesKeptMax: BODIES_KEPT_MAX_BYTES,
  expiredKeptMax: EXPIRED_KEPT_MAX_JOBS,
};

/** close() leaves the database open: whoever opened it closes it. */
export async function openSqliteQueue(options: SqliteQueueOptions): Promise<JobQueue> {
  const { database, blobDir, clock, monotonic = () => performance.now(), bounds, storage = UNWATCHED } = options;
  migrateQueue(database.connection);
  const files = new BodyFiles(blobDir, database.durability === "full");
  const core = new QueueCore(database, files, { clock, monotonic }, { ...BOUNDS_DEFAULT, ...bounds }, storage);
  const bodies = new StoredBodies(core);
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

    events: {
      jobQueued: (listener) => void core.queuedListeners.push(listener),
      jobCancelled: (listener) => void core.cancelledListeners.push(listener),
      jobDelayed: (listener) => void core.delayedListeners.push(listener),
      jobFinished: (listener) => void core.finishedListeners.push(listener),
    },

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
