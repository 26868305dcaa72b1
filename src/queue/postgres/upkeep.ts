/** Deletions, in small batches so that a million jobs hold up nobody; and leases that passed. */
import { isMoved } from "../../domain/errors.ts";
import { isRunsyncJob } from "../../domain/job.ts";
import { DELETE_BATCH_ROWS } from "../../domain/limits.ts";
import { type Body, DELAYED, IN_PROGRESS, IN_QUEUE } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { RunningJobs } from "../machine/running-jobs.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { JobUpkeep, Queue } from "../queue.ts";
import { failQueuedJob } from "./changes.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import { forgetDone, hasFinal, sweepExpired, trimExpired, trimFailed } from "./done-jobs.ts";
import { OrphanedBodies } from "./orphans.ts";
import { shardOf } from "./ownership.ts";
import { rollPartitions } from "./partitions.ts";
import type { JobRecord, ReadRow } from "./records.ts";
import { expiredQueuedRows, ofEndpoints, waitingNamed, waitingRows } from "./rows.ts";

export type Upkeep = Omit<JobUpkeep, "wakeDelayed"> & Pick<Queue, "purge">;

export function queueUpkeep(core: PostgresCore, bodies: StoredBodies, running: RunningJobs): Upkeep {
  const { live } = core;
  const orphans = new OrphanedBodies(core);

  /** Calls `change` with each job that `find` gives and that is in `state` yet, batch by batch. Resolves how many. */
  async function forAll(
    state: number,
    find: (query: Query) => Promise<readonly ReadRow[]>,
    change: (job: JobRecord) => void,
  ): Promise<number> {
    let changed = 0;
    for (;;) {
      const [count, rows] = await core.keep(
        (jobs: readonly JobRecord[]) => {
          const there = jobs.filter((job) => !job.isGone && job.state === state);
          for (const job of there) change(job);
          return [there.length, jobs.length] as const;
        },
        { load: async (query) => (await find(query)).map((row) => core.adopt(row, "open")) },
      );
      changed += count;
      if (rows < DELETE_BATCH_ROWS) return changed;
    }
  }

  function deleteWaiting(job: JobRecord): void {
    live.count(live.of(job.endpoint), job.state, job.low_priority === 1, -1);
    core.delete(job);
  }

  /** What waits of the endpoint now. */
  function waiting({ number }: EndpointState, state = IN_QUEUE): (query: Query) => Promise<ReadRow[]> {
    const last = core.lastSeq();
    return (query) => waitingRows(query, number, state, last, DELETE_BATCH_ROWS);
  }

  async function deleteAllWaiting(endpoint: EndpointState): Promise<number> {
    const finds = [IN_QUEUE, DELAYED].map((state) => [state, waiting(endpoint, state)] as const);
    let deleted = 0;
    for (const [state, find] of finds) deleted += await forAll(state, find, deleteWaiting);
    return deleted;
  }

  return {
    async purge(endpointId) {
      core.check(endpointId);
      const endpoint = live.endpoints.get(endpointId);
      return endpoint === undefined || endpoint.number === 0 ? 0 : deleteAllWaiting(endpoint);
    },

    async failQueued(endpointId, workerId, error) {
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined || endpoint.inQueue === 0) return 0;
      const find = waiting(endpoint);
      return bodies.reason(endpointId, error, (stored) =>
        unlessMoved(forAll(IN_QUEUE, find, (job) => failQueuedJob(core, job, workerId, stored))),
      );
    },

    async failAwaited(endpointId, workerId, error) {
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined || endpoint.inQueue === 0) return 0;
      const awaited = () => [...new Set([...core.finals.jobIds(), ...core.chunks.jobIds()])].filter(isRunsyncJob);
      const failAll = (stored: Body) => () => {
        const jobs = awaited().flatMap((id) => core.record(id) ?? []);
        const there = jobs.filter((job) => job.endpoint === endpoint.number && job.state === IN_QUEUE && !job.isGone);
        for (const job of there) failQueuedJob(core, job, workerId, stored);
        return there.length;
      };
      const load = async (query: Query) => {
        const unknown = awaited().filter((id) => core.record(id) === undefined);
        for (const row of await waitingNamed(query, endpoint.number, unknown)) core.adopt(row, "open");
      };
      return bodies.reason(endpointId, error, (stored) => unlessMoved(core.keep(failAll(stored), { load })));
    },

    async expireLeases() {
      // Who lost a lease cannot be written then; when storing works again, all start anew.
      if (core.storage.lack !== undefined || core.db.outage !== undefined) return 0;
      return running.expireLeases();
    },

    async graceLeases(ms) {
      for (const job of live.running.values()) job.leaseUntil = live.lease(ms);
    },

    async sweep() {
      live.forgetGone();
      const now = core.clock();
      const expired = async (query: Query) => {
        const rows = await expiredQueuedRows(query, now, DELETE_BATCH_ROWS, core.ownership.within("seq"));
        return ofEndpoints(query, live, rows);
      };
      let deleted = await forAll(IN_QUEUE, expired, deleteWaiting);
      deleted += await sweepExpired(core, now);
      for (const endpoint of [...core.failedSince]) {
        deleted += await trimFailed(core, endpoint, now);
        core.failedSince.delete(endpoint);
      }
      await trimExpired(core);
      // One platform is enough.
      if (core.ownership.has(0)) {
        await core.pipeline.alone((query) => rollPartitions(query, now, core.seqAt));
        await orphans.sweep();
      }
      return deleted;
    },

    async endpointIds() {
      const scheduled = await core.db.read<{ endpoint: string }>("SELECT endpoint FROM job_schedules");
      const known = [...live.endpoints.values()].filter(({ number }) => number > 0).map(({ id }) => id);
      const here = scheduled.map(({ endpoint }) => endpoint).filter((id) => core.ownership.has(shardOf(id)));
      return [...new Set([...known, ...here])];
    },

    async forget(endpointId) {
      await core.keep(() => {
        core.check(endpointId);
        core.unit.shards.add(shardOf(endpointId));
        core.unit.schedules.set(endpointId, null);
      });
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined || endpoint.number === 0) return;
      const { number } = endpoint;
      await core.keep(() => {
        for (const job of [...live.running.values()]) {
          if (job.endpoint.number !== number) continue;
          live.running.delete(job.id);
          live.count(job.endpoint, IN_PROGRESS, job.lowPriority, -1);
          core.dropChunks(job.seq, job.id, job.endpoint, job.chunkBytes);
          core.unnamed(job.endpoint, job.outputFile);
          core.delete(core.record(job.id)!);
        }
      });
      await deleteAllWaiting(endpoint);
      // A job may end meanwhile: a row without its endpoint could not be read, not even by who takes the shard.
      for (let isOver = false; !isOver; ) {
        await forgetDone(core, number);
        isOver = await core.keep(
          (hasEnded: boolean) => {
            // A batch with a shard of another is not carried out, however often it is tried.
            core.check(endpointId);
            // After a batch that failed it is another object.
            const still = live.endpoints.get(endpointId);
            if (still === undefined || still.number !== number) return true;
            if (still.inQueue + still.delayed + still.inProgress > 0) return true;
            if (hasEnded || core.unit.endpoints.has(still)) return false;
            core.removed(still);
            return true;
          },
          { load: (query) => hasFinal(query, number) },
        );
      }
      core.failedSince.delete(endpoint);
      core.expiredSince.delete(endpoint);
    },
  };
}

/** Resolves 0 when another has the jobs by now: they are its to fail. */
function unlessMoved(failing: Promise<number>): Promise<number> {
  return failing.catch((error) => {
    if (isMoved(error)) return 0;
    throw error;
  });
}
