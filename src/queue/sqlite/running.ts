/** Rows of running jobs as their state changes, and of those between two attempts. */
import { DELETE_BATCH_ROWS, RETRY_DELAY_MAX_MS } from "../../domain/limits.ts";
import type { DelayedRows } from "../machine/delayed-jobs.ts";
import { DELAYED, IN_QUEUE, type JobRow } from "../machine/job-row.ts";
import type { RunningJob } from "../machine/live-state.ts";
import type { RunningRows } from "../machine/running-jobs.ts";
import type { QueueCore } from "./core.ts";

export function runningRows(core: QueueCore): RunningRows {
  const { sql } = core;

  /** What a job said in a run that is over goes. */
  function forget(job: RunningJob): void {
    core.unnamed(job.endpoint, job.outputFile);
    core.dropChunks(job.seq, job.id, job.endpoint);
  }

  return {
    finished(job, state, output, error, at) {
      sql.finish.run(state, output, error, at, at + core.keptMs(state, job.retentionMs), job.seq, job.fence);
      if (job.webhook !== "") core.owedWebhook(job.seq, job.webhook);
    },

    requeued(job, losses) {
      // A job that was lost keeps its worker's name until the next one takes it.
      sql.requeue.run(losses > 0 ? job.workerId : "", job.retries + losses, job.seq);
      forget(job);
    },

    delayed(job, dueAt) {
      sql.delay.run(dueAt, job.seq);
      forget(job);
    },

    retried: (endpoint) => core.addRetry(endpoint),
    expiresAt: (job) => (sql.expiryOf.get(job.seq) as { at: number } | undefined)?.at,
    isShared: false,
    notHeld: async () => false,
    elsewhere: async () => new Set(),
  };
}

export function delayedRows(core: QueueCore): DelayedRows {
  const { sql, live } = core;
  // What a clock that was set back since would hold for longer than any delay.
  sql.nearDue.run(core.steady() + RETRY_DELAY_MAX_MS);
  return {
    queueDue: (now) =>
      core.keep(() => {
        const rows = sql.due.all(now, DELETE_BATCH_ROWS) as unknown as JobRow[];
        for (const row of rows) {
          const endpoint = live.of(row.endpoint);
          sql.wake.run(row.seq);
          live.count(endpoint, DELAYED, false, -1);
          live.count(endpoint, IN_QUEUE, row.low_priority === 1, 1);
          core.touch(endpoint);
        }
        return rows.length;
      }),

    firstDue: async () => (sql.firstDue.get() as { at: number | null }).at,
  };
}
