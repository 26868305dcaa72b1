/**
 * The queue on the platform's SQLite file. All changes of one turn of the event loop are one transaction, and a
 * promise resolves after its commit. The parts are under sqlite/; docs/reference/durability.md says what survives what.
 */
import { SvcError } from "../domain/errors.ts";
import { UNWATCHED } from "../domain/storage.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import { DelayedJobs } from "./machine/delayed-jobs.ts";
import { boundsWith, type QueueOptions } from "./machine/machine.ts";
import { jobProgress } from "./machine/progress.ts";
import { RunningJobs } from "./machine/running-jobs.ts";
import { searchJobs } from "./machine/search-jobs.ts";
import { StoredBodies } from "./machine/stored-bodies.ts";
import type { JobQueue } from "./queue.ts";
import { BodyFiles, placeOf } from "./sqlite/body-files.ts";
import { queueChanges } from "./sqlite/changes.ts";
import { QueueCore } from "./sqlite/core.ts";
import { queueOutbox } from "./sqlite/outbox.ts";
import { progressRows } from "./sqlite/progress.ts";
import { queueReads } from "./sqlite/reads.ts";
import { delayedRows, runningRows } from "./sqlite/running.ts";
import { migrateQueue } from "./sqlite/schema.ts";
import { searchRows } from "./sqlite/search.ts";
import { queueTicks } from "./sqlite/ticks.ts";
import { queueUpkeep } from "./sqlite/upkeep.ts";

export interface SqliteQueueOptions extends QueueOptions {
  readonly database: SqliteDatabase;
  /** Directory for bodies above INLINE_BODY_MAX_BYTES; made when it is missing. */
  readonly blobDir: string;
}

/** close() leaves the database open: whoever opened it closes it. */
export async function openSqliteQueue(options: SqliteQueueOptions): Promise<JobQueue> {
  const { database, blobDir, clock, monotonic = () => performance.now(), bounds, storage = UNWATCHED } = options;
  migrateQueue(database.connection);
  const files = new BodyFiles(blobDir, database.durability === "full");
  const core = new QueueCore(database, files, { clock, monotonic }, boundsWith(bounds), storage);
  const bodies = new StoredBodies(core, placeOf(core));
  const delays = new DelayedJobs(core.steady, delayedRows(core));
  await delays.waitForFirst();
  const jobs = new RunningJobs(core, bodies, delays, runningRows(core));
  const reads = queueReads(core);
  const changes = queueChanges(core, bodies);
  const source = searchRows(core);
  storage.onReturn(() => core.goOn());
  return {
    ...changes,
    ...reads,
    ...jobProgress(core, bodies, jobs, progressRows(core)),
    ...queueOutbox(core),
    ...queueTicks(core),
    ...queueUpkeep(core, bodies, jobs),

    claim: jobs.claim,
    renew: jobs.renew,
    finish: jobs.finish,
    release: jobs.release,
    search: (search) => searchJobs(core.live, source, search),
    wakeDelayed: () => delays.wake(),

    async cancel(jobId) {
      await changes.cancel(jobId);
      return reads.find(jobId);
    },

    events: core.events,

    async close() {
      await bodies.idle();
      delays.close();
      core.close(new SvcError("SHUTTING_DOWN", "The queue is closed."));
      // The last batch waits for whoever holds the connection.
      await database.lock();
      database.unlock();
      // Those who waited read their job once more before the database goes.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}
