/** Rows of running jobs as their state changes, and of those between two attempts. */

import { DELETE_BATCH_ROWS, RETRY_DELAY_MAX_MS } from "../../domain/limits.ts";
import { movedAway } from "../../domain/own-endpoints.ts";
import type { DelayedRows } from "../machine/delayed-jobs.ts";
import { DELAYED, IN_QUEUE } from "../machine/job-row.ts";
import type { RunningJob } from "../machine/live-state.ts";
import type { RunningRows } from "../machine/running-jobs.ts";
import type { Claim } from "../queue.ts";
import { endRow } from "./changes.ts";
import type { PostgresCore } from "./core.ts";
import { shardOfNumber } from "./ownership.ts";
import type { JobRecord } from "./records.ts";
import { dueRows, ofEndpoints } from "./rows.ts";

export function runningRows(core: PostgresCore): RunningRows {
  /** What a job said in a run that is over goes. */
  function leaveWorker(record: JobRecord, job: RunningJob): void {
    record.output = null;
    core.changed(record);
    core.unnamed(job.endpoint, job.outputFile);
    core.dropChunks(job.seq, job.id, job.endpoint, job.chunkBytes);
  }

  return {
    finished(job, state, output, error, finishedAt) {
      endRow(core, core.record(job.id)!, state, { output, error, finishedAt });
    },

    requeued(job, losses) {
      const record = core.record(job.id)!;
      // A job that was lost keeps its worker's name until the next one takes it.
      const worker_id = losses > 0 ? job.workerId : "";
      Object.assign(record, { state: IN_QUEUE, worker_id, retries: job.retries + losses, started_at: null });
      leaveWorker(record, job);
      core.queued(record);
    },

    delayed(job, dueAt) {
      const record = core.record(job.id)!;
      const attempts = record.attempts + 1;
      Object.assign(record, { state: DELAYED, due_at: dueAt, attempts, worker_id: "", started_at: null });
      leaveWorker(record, job);
    },

    retried(endpoint) {
      endpoint.retried++;
    },

    expiresAt: (job) => core.record(job.id)?.expires_at,
    // Who took it may yet be found not to have been able to.
    isShared: true,
    async notHeld(claim) {
      if (core.pipeline.isWriting) await core.run(() => {});
      if ((await elsewhere([claim])).size > 0) throw movedAway(`job ${claim.jobId}`);
      return false;
    },
    elsewhere,
  };

  async function elsewhere(claims: readonly Claim[]): Promise<ReadonlySet<Claim>> {
    if (core.ownership.hasAll) return new Set();
    const rows = await core.db.read<{ id: string; seq: number }>("SELECT id, seq FROM open_jobs WHERE id = ANY($1)", [
      claims.map(({ jobId }) => jobId),
    ]);
    const there = new Set(rows.flatMap(({ id, seq }) => (core.ownership.has(shardOfNumber(seq)) ? [] : [id])));
    return new Set(claims.filter(({ jobId }) => there.has(jobId)));
  }
}

export function delayedRows(core: PostgresCore): DelayedRows {
  function queue(jobs: readonly JobRecord[]): number {
    const { live } = core;
    for (const job of jobs) {
      if (job.isGone || job.state !== DELAYED) continue;
      const endpoint = live.of(job.endpoint);
      Object.assign(job, { state: IN_QUEUE, due_at: null });
      core.changed(job);
      core.queued(job);
      live.count(endpoint, DELAYED, false, -1);
      live.count(endpoint, IN_QUEUE, job.low_priority === 1, 1);
      core.touch(endpoint);
    }
    return jobs.length;
  }

  return {
    queueDue: (now) =>
      core.keep(queue, {
        load: async (query) => {
          const rows = await dueRows(query, now, DELETE_BATCH_ROWS, core.ownership.within("seq"));
          return (await ofEndpoints(query, core.live, rows)).map((row) => core.adopt(row, "open"));
        },
      }),

    async firstDue() {
      const [row] = await core.db.read<{ at: number | null }>(
        `SELECT min(due_at)::int8 AS at FROM open_jobs WHERE state = -1${core.ownership.within("seq")}`,
      );
      return row!.at;
    },
  };
}

/** What a clock that was set back since would hold for longer than any delay. */
export async function nearDue(core: PostgresCore): Promise<void> {
  const latest = core.steady() + RETRY_DELAY_MAX_MS;
  await core.pipeline.alone((query) =>
    query(`UPDATE open_jobs SET due_at = $1 WHERE state = -1 AND due_at > $1${core.ownership.within("seq")}`, [latest]),
  );
}
