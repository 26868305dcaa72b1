import { JOB_STATES } from "../../domain/job.ts";
import type { Job } from "../queue.ts";
import { IN_PROGRESS, type RunningJob } from "./live-state.ts";
import type { JobRow } from "./statements.ts";

export function jobOfRow(row: JobRow, endpointId: string, output: Uint8Array | null, error: string): Job {
  return {
    id: row.id,
    endpointId,
    state: JOB_STATES[row.state]!,
    method: row.method,
    webhook: row.webhook,
    lowPriority: row.low_priority === 1,
    output,
    error,
    workerId: row.worker_id,
    retries: row.retries,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    executionTimeoutMs: row.execution_timeout_ms,
  };
}

/** A job that runs, or was just finished with what is given. */
export function jobOfRunning(
  job: RunningJob,
  output: Uint8Array | null,
  final?: { readonly state: number; readonly error: string; readonly finishedAt: number },
): Job {
  return {
    id: job.id,
    endpointId: job.endpoint.id,
    state: JOB_STATES[final?.state ?? IN_PROGRESS]!,
    method: job.method,
    webhook: job.webhook,
    lowPriority: job.lowPriority,
    output,
    error: final?.error ?? "",
    workerId: job.workerId,
    retries: job.retries,
    createdAt: job.createdAt,
    startedAt: job.startedAt,
    finishedAt: final?.finishedAt ?? null,
    executionTimeoutMs: job.executionTimeoutMs,
  };
}
