/**
 * The queue on PostgreSQL. What is in memory is the same as with SQLite; rows are written a batch at a time while the batch
 * before is on its way, and a promise resolves after its commit. The parts are under postgres/; docs/decisions/0018 says why so.
 */
import { hostname } from "node:os";
import { SvcError } from "../domain/errors.ts";
import type { ShardOwnership } from "../domain/ownership.ts";
import { UNWATCHED } from "../domain/storage.ts";
import { notBefore } from "../lib/not-before.ts";
import type { Postgres } from "../postgres/postgres.ts";
import type { BodyStore } from "./bodies/body-store.ts";
import { DelayedJobs } from "./machine/delayed-jobs.ts";
import { boundsWith, type QueueOptions } from "./machine/machine.ts";
import { jobProgress } from "./machine/progress.ts";
import { RunningJobs } from "./machine/running-jobs.ts";
import { searchJobs } from "./machine/search-jobs.ts";
import { StoredBodies } from "./machine/stored-bodies.ts";
import { queueChanges } from "./postgres/changes.ts";
import { Connections } from "./postgres/connection.ts";
import { PostgresCore } from "./postgres/core.ts";
import { EndpointNames } from "./postgres/endpoint-names.ts";
import { queueOutbox } from "./postgres/outbox.ts";
import { rollPartitions } from "./postgres/partitions.ts";
import { progressRows } from "./postgres/progress.ts";
import { queueReads } from "./postgres/reads.ts";
import { delayedRows, nearDue, runningRows } from "./postgres/running.ts";
import { migrateQueue } from "./postgres/schema.ts";
import { searchRows } from "./postgres/search.ts";
import type { ShardKeeper } from "./postgres/shard-keeper.ts";
import { keepShards } from "./postgres/shard-memory.ts";
import { watchTail } from "./postgres/tail-watch.ts";
import { queueTicks } from "./postgres/ticks.ts";
import { queueUpkeep } from "./postgres/upkeep.ts";
import type { JobQueue } from "./queue.ts";

export interface PostgresQueueOptions extends QueueOptions {
  readonly postgres: Postgres;
  /** Bodies above INLINE_BODY_MAX_BYTES. */
  readonly bodies: BodyStore;
  /** How long callers wait for a database that is away. */
  readonly waitMaxMs?: number;
  /** Another platform has taken over: nothing is accepted here any more. */
  readonly lost?: (error: SvcError) => void;
  /** Takes over work that nobody awaits: deletions of bodies that nothing names any more. */
  readonly own?: (work: Promise<unknown>) => void;
  /** Short jobs whose callers wait may run before they are stored (early-jobs.ts); default true. */
  readonly runsEarly?: boolean | undefined;
  /** One of several on the database; without it this platform takes the database over from whoever has it. */
  readonly replica?: ReplicaOptions;
}

export interface ReplicaOptions {
  /** No other has it, nor had. */
  readonly id: string;
  /** Where its links are. */
  readonly address: string;
  /** Versions of the links' protocol that it speaks. */
  readonly links: { readonly first: number; readonly last: number };
  /** The jobs of these endpoints are another replica's: so are their workers and callers. */
  readonly moved?: (endpointIds: readonly string[]) => void;
  /** Shards are to be given away. Resolves when the other is ready for them, and what their workers have begun is over, as far as that is waited for. */
  readonly leaves?: (shards: readonly number[], to: string) => Promise<boolean>;
  /** Shards may have another state now, or another owner. */
  readonly told?: (ownership: ShardOwnership) => void;
}

/** The queue of one of several replicas. */
export interface ReplicaQueue extends JobQueue {
  readonly shards: ShardKeeper;
}

export function openPostgresQueue(options: PostgresQueueOptions & { replica: ReplicaOptions }): Promise<ReplicaQueue>;
export function openPostgresQueue(options: PostgresQueueOptions): Promise<JobQueue>;
export async function openPostgresQueue(options: PostgresQueueOptions): Promise<JobQueue> {
  const { postgres, bodies: store, clock, monotonic = () => performance.now(), bounds, storage = UNWATCHED } = options;
  const own = options.own ?? ((work) => work.catch(() => {}));
  const db = new Connections(postgres, options.waitMaxMs);
  const core = new PostgresCore(
    db,
    store,
    { clock, monotonic },
    boundsWith(bounds),
    storage,
    { lost: options.lost ?? (() => {}), own, tailLost: () => postgres.lostTail() },
    { runsEarly: options.runsEarly },
  );
  const delays = new DelayedJobs(core.steady, delayedRows(core));
  core.reread = () => delays.waitForFirst();
  const { replica } = options;
  const keeper =
    replica &&
    keepShards(core, replica, {
      loaded: () => delays.waitForFirst(),
      own,
    });
  try {
    await migrateQueue(db);
    if (keeper === undefined) await core.openAll(`${hostname()} ${process.pid}`);
    else await keeper.start();
    await core.pipeline.alone((query) => rollPartitions(query, clock(), core.seqAt));
    await nearDue(core);
    await delays.waitForFirst();
  } catch (error) {
    await keeper?.close();
    await db.close();
    throw error;
  }
  const bodies = new StoredBodies(core, core.bodies);
  const jobs = new RunningJobs(core, bodies, delays, runningRows(core));
  const names = new EndpointNames(core);
  const reads = queueReads(core, names);
  const changes = queueChanges(core, bodies);
  const source = searchRows(core);
  storage.onReturn(() => core.goOn());
  const stopRefusing = refuseWhenAway(core);
  const stopWatching = keeper === undefined ? watchTail(core) : () => {};
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
    async search(search) {
      await names.knowAll();
      return searchJobs(core.live, source, search);
    },
    wakeDelayed: () => delays.wake(),

    async cancel(jobId) {
      await changes.cancel(jobId);
      return reads.find(jobId);
    },

    events: core.events,

    async close() {
      stopRefusing();
      stopWatching();
      delays.close();
      await keeper?.close();
      await core.close(new SvcError("SHUTTING_DOWN", "The queue is closed."), bodies, replica?.id);
    },
    ...(keeper !== undefined && { shards: keeper }),
  };
}

/** Callers that wait for a database that stays away are told; what must not be lost waits on. */
function refuseWhenAway(core: PostgresCore): () => void {
  let callOff = () => {};
  core.db.onOutage((waitMs) => {
    callOff();
    callOff = notBefore(waitMs, () => {
      const { refusal } = core.db;
      if (refusal !== undefined) core.pipeline.refuse(refusal);
    });
  });
  return () => callOff();
}
