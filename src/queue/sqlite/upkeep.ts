/** Deletions, in small batches so that a million jobs do not stop the loop; and leases that passed. */
import { setImmediate } from "node:timers/promises";
import { isRunsyncJob } from "../../domain/job.ts";
import { DELETE_BATCH_ROWS, SWEEP_WINDOW_ROWS } from "../../domain/limits.ts";
import { CANCELLED, COMPLETED, FAILED, IN_PROGRESS, IN_QUEUE, type JobRow, TIMED_OUT } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { RunningJobs } from "../machine/running-jobs.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import type { JobUpkeep, Queue } from "../queue.ts";
import { failQueuedJob } from "./changes.ts";
import type { QueueCore } from "./core.ts";
import { forgetExpired, keepExpired, lineOfError, trimExpired } from "./expired-jobs.ts";

const FINAL_STATES = [COMPLETED, FAILED, TIMED_OUT, CANCELLED];

export type Upkeep = Omit<JobUpkeep, "wakeDelayed"> & Pick<Queue, "purge">;

export function queueUpkeep(core: QueueCore, bodies: StoredBodies, running: RunningJobs): Upkeep {
  const { sql, live } = core;

  /** Calls `change` with each row that `find` gives, batch by batch, until it gives no more. Resolves how many rows. */
  async function forAll(find: () => unknown[], change: (row: JobRow) => void): Promise<number> {
    let changed = 0;
    for (;;) {
      const count = await core.run(() => {
        const rows = find() as JobRow[];
        for (const row of rows) change(row);
        return rows.length;
      });
      changed += count;
      if (count < DELETE_BATCH_ROWS) return changed;
    }
  }

  const deleteAll = (find: () => unknown[], keepTotals: boolean) =>
    forAll(find, (row) => deleteResting(core, row, keepTotals));

  /** What waits of the endpoint now, a batch of it. */
  function waiting(endpoint: EndpointState): () => unknown[] {
    const last = (sql.maxSeq.get() as { seq: number | null }).seq ?? 0;
    return () => sql.queuedUpTo.all(endpoint.number, last, DELETE_BATCH_ROWS);
  }

  /** What waits for its next attempt, a batch of it. */
  function delayed(endpoint: EndpointState): () => unknown[] {
    return () => sql.delayedOf.all(endpoint.number, Number.MAX_SAFE_INTEGER, DELETE_BATCH_ROWS);
  }

  /**
   * Deletes the final jobs that have outlived their retention. They are not in the order of their end, so the index is
   * read through, a window at a time. The endpoint is looked at again as long as it has final jobs.
   */
  async function deleteExpired(endpoint: EndpointState, now: number): Promise<number> {
    let deleted = 0;
    for (const state of FINAL_STATES) {
      let after = -1;
      while (after !== Number.MAX_SAFE_INTEGER) {
        const end = sql.finalAfter.get(endpoint.number, state, after, SWEEP_WINDOW_ROWS) as { seq: number } | undefined;
        const last = end?.seq ?? Number.MAX_SAFE_INTEGER;
        const expired = (limit: number) => sql.expiredFinal.all(endpoint.number, state, after, last, now, limit);
        if (expired(1).length > 0) deleted += await deleteAll(() => expired(DELETE_BATCH_ROWS), true);
        else await setImmediate();
        after = last;
      }
    }
    if (sql.anyFinal.all(endpoint.number, 1).length === 0) core.finalSince.delete(endpoint);
    return deleted;
  }

  /** Deletes the oldest of too many failed jobs. The endpoint is looked at again as long as there are too many. */
  async function trimFailed(endpoint: EndpointState, now: number): Promise<number> {
    const states = [FAILED, TIMED_OUT];
    const surplus = (state: number, until: number, limit: number) =>
      sql.surplusFailed.all(endpoint.number, state, core.bounds.failedKeptMax, until, limit);
    let deleted = 0;
    for (const state of states) deleted += await deleteAll(() => surplus(state, now, DELETE_BATCH_ROWS), true);
    if (states.every((state) => surplus(state, Number.MAX_SAFE_INTEGER, 1).length === 0)) {
      core.failedSince.delete(endpoint);
    }
    return deleted;
  }

  return {
    async purge(endpointId) {
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined) return 0;
      return (await deleteAll(waiting(endpoint), true)) + (await deleteAll(delayed(endpoint), true));
    },

    async failQueued(endpointId, workerId, error) {
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined || endpoint.inQueue === 0) return 0;
      const rows = waiting(endpoint);
      return bodies.reason(endpointId, error, (stored) =>
        forAll(rows, (row) => failQueuedJob(core, row, workerId, stored)),
      );
    },

    async failAwaited(endpointId, workerId, error) {
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined || endpoint.inQueue === 0) return 0;
      return bodies.reason(endpointId, error, (stored) =>
        core.run(() => {
          const waited = new Set([...core.finals.jobIds(), ...core.chunks.jobIds()]);
          const rows = [...waited].flatMap((id) => {
            const row = isRunsyncJob(id) ? (sql.meta.get(id) as unknown as JobRow | undefined) : undefined;
            return row?.endpoint === endpoint.number && row.state === IN_QUEUE ? [row] : [];
          });
          for (const row of rows) failQueuedJob(core, row, workerId, stored);
          return rows.length;
        }),
      );
    },

    async expireLeases() {
      // Who lost a lease cannot be written then; when storing works again, all start anew.
      if (core.storage.lack !== undefined) return 0;
      return running.expireLeases();
    },

    async graceLeases(ms) {
      for (const job of live.running.values()) job.leaseUntil = live.lease(ms);
    },

    async sweep() {
      live.forgetGone();
      const now = core.clock();
      let deleted = await deleteAll(() => sql.expiredQueued.all(now, DELETE_BATCH_ROWS), true);
      for (const endpoint of [...core.finalSince]) deleted += await deleteExpired(endpoint, now);
      for (const endpoint of [...core.failedSince]) deleted += await trimFailed(endpoint, now);
      await trimExpired(core);
      await core.files.sweep(core.isNamed);
      return deleted;
    },

    async endpointIds() {
      const scheduled = (sql.scheduled.all() as { endpoint: string }[]).map(({ endpoint }) => endpoint);
      const known = [...live.endpoints.values()].filter(({ number }) => number > 0).map(({ id }) => id);
      return [...new Set([...known, ...scheduled])];
    },

    async forget(endpointId) {
      await core.run(() => sql.deleteSchedule.run(endpointId));
      const endpoint = live.endpoints.get(endpointId);
      if (endpoint === undefined) return;
      await core.run(() => {
        for (const job of [...live.running.values()]) {
          if (job.endpoint !== endpoint) continue;
          live.running.delete(job.id);
          live.count(endpoint, IN_PROGRESS, job.lowPriority, -1);
          core.delete(job.seq, job.id);
        }
      });
      await deleteAll(() => sql.queuedUpTo.all(endpoint.number, Number.MAX_SAFE_INTEGER, DELETE_BATCH_ROWS), false);
      await deleteAll(delayed(endpoint), false);
      // A job may end meanwhile: a row without its endpoint could not be read, not even at the next start.
      for (let isOver = false; !isOver; ) {
        await deleteAll(() => sql.anyFinal.all(endpoint.number, DELETE_BATCH_ROWS), false);
        await forgetExpired(core, endpoint);
        isOver = await core.run(() => {
          // Another may have forgotten it, and a job have come since.
          if (live.endpoints.get(endpointId) !== endpoint) return true;
          if (endpoint.inQueue + endpoint.delayed + endpoint.inProgress > 0) return true;
          if (sql.hasFinal.get(endpoint.number) !== undefined) return false;
          sql.deleteEndpoint.run(endpoint.number);
          live.removed(endpoint);
          return true;
        });
      }
    },
  };
}

/** Deletes a job that does not run. What it added to the totals stays, unless its endpoint goes too. */
function deleteResting(core: QueueCore, row: JobRow, keepTotals: boolean): void {
  const endpoint = core.live.of(row.endpoint);
  const line = keepTotals ? lineOfError(core, row) : "";
  core.delete(row.seq, row.id);
  const failed = row.state === FAILED || row.state === TIMED_OUT;
  if (row.state <= IN_QUEUE) core.live.count(endpoint, row.state, row.low_priority === 1, -1);
  else if (!keepTotals) core.live.count(endpoint, row.state, false, -1);
  else {
    if (row.state === COMPLETED || failed) core.sql.addTotals.run(failed ? 0 : 1, failed ? 1 : 0, 0, endpoint.number);
    keepExpired(core, row, line);
  }
}
