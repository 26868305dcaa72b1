/** A job as its row has it, in either database, and as callers see it. */
import { JOB_STATES, type JobState } from "../../domain/job.ts";
import type { Job } from "../queue.ts";

/** Between two attempts; callers see IN_QUEUE. */
export const DELAYED = -1;
export const IN_QUEUE = 0;
export const IN_PROGRESS = 1;
export const COMPLETED = 2;
export const FAILED = 3;
export const TIMED_OUT = 4;
export const CANCELLED = 5;

/** A row of a job without its bodies. */
export interface JobRow {
  readonly seq: number;
  readonly id: string;
  readonly endpoint: number;
  readonly state: number;
  readonly low_priority: number;
  readonly fence: number;
  readonly retries: number;
  readonly worker_id: string;
  readonly created_at: number;
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly expires_at: number;
  readonly retention_ms: number;
  readonly execution_timeout_ms: number;
  readonly method: string;
  readonly webhook: string;
  /** Of a job that expired. */
  readonly expired?: 1;
  /** Of a failed job that expired: its type and the first line. */
  readonly line?: string;
  /** Attempts that failed and were followed by another. */
  readonly attempts: number;
  /** When a delayed job is queued again. */
  readonly due_at: number | null;
}

/** Bytes, or what refers to those that lie outside the row, with their number behind the last dot. */
export type Body = Uint8Array | string;

export function sizeOf(reference: string): number {
  return Number(reference.slice(reference.lastIndexOf(".") + 1));
}

export function timesOf(row: JobRow) {
  return { workerId: row.worker_id, createdAt: row.created_at, startedAt: row.started_at };
}

/** As callers see it. */
export function stateOf({ state }: Pick<JobRow, "state">): JobState {
  return JOB_STATES[state === DELAYED ? IN_QUEUE : state]!;
}

export function jobOfRow(row: JobRow, endpointId: string, output: Uint8Array | null, error: string): Job {
  return {
    id: row.id,
    endpointId,
    state: stateOf(row),
    method: row.method,
    webhook: row.webhook,
    lowPriority: row.low_priority === 1,
    output,
    error,
    workerId: row.worker_id,
    retries: row.retries,
    attempts: row.attempts,
    dueAt: row.state === DELAYED ? row.due_at : null,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    executionTimeoutMs: row.execution_timeout_ms,
  };
}

/** Of a job that expired: its type of error and the first line are all that is left of its bodies. */
export function expiredJob(row: JobRow, endpointId: string): Job {
  return { ...jobOfRow(row, endpointId, null, row.line ?? ""), expired: true };
}

/** Newest first. */
export function bySeq(a: JobRow, b: JobRow): number {
  return b.seq - a.seq;
}

/** The bytes of an output that lies outside its row and is larger than `maxBytes`; undefined: it is none. */
export function leftOut(output: Body | null, maxBytes: number): number | undefined {
  return typeof output === "string" && sizeOf(output) > maxBytes ? sizeOf(output) : undefined;
}

/** Of a body that is at hand. */
export function textOf(bytes: Uint8Array | null): string {
  return bytes === null ? "" : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** What a body adds to its row. */
export function sizeInRow(body: Body | null): number {
  return typeof body === "object" && body !== null ? body.byteLength : 0;
}

/** The part of a body that is in its row. */
export function inRow(body: Body | null): Uint8Array | null {
  return typeof body === "string" ? null : body;
}
