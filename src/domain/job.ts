/**
 * A job's life:
 *
 *   IN_QUEUE ──claim──▶ IN_PROGRESS ──result──▶ COMPLETED | FAILED
 *      ▲  │                 │   │ └──execution time-out──▶ TIMED_OUT
 *      │  └──cancel─────────┼───┴──cancel──▶ CANCELLED
 *      │                    │
 *      └──worker lost once──┘   (a second loss: FAILED)
 *
 * A job that waits for code that cannot start may be FAILED at once. FAILED and TIMED_OUT go back to IN_QUEUE by retry. A job past its ttl is deleted in any state but IN_PROGRESS.
 */

export const JOB_STATES = ["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"] as const;
export type JobState = (typeof JOB_STATES)[number];

/** The state will not change any more (except by an explicit retry). */
export function isFinal(state: JobState): boolean {
  return state !== "IN_QUEUE" && state !== "IN_PROGRESS";
}

/** ids as clients of this kind of service know them. */
export function runJobId(uuid: string): string {
  return `${uuid}-l1`;
}

export function runsyncJobId(uuid: string): string {
  return `sync-${uuid}-l1`;
}

/** The beginning of a runsync job's id, for that of its UUID. */
export function runsyncIdStart(uuidStart: string): string {
  return `sync-${uuidStart}`;
}

/** Its caller waited for it from the beginning. */
export function isRunsyncJob(jobId: string): boolean {
  return jobId.startsWith("sync-");
}

/** The UUID that a job's id was made of. */
export function uuidOfJob(jobId: string): string {
  return jobId.replace(/^sync-/, "").slice(0, -"-l1".length);
}

/** What people see of an id: the time in its UUID, to the millisecond. A beginning that only one job has names it. */
export function shortJobId(jobId: string): string {
  return jobId.replace(/^sync-/, "").slice(0, SHORT_ID_CHARS);
}
const SHORT_ID_CHARS = 13;

/** "ValueError: no such colour": the message of some exceptions begins with their type already, or is no more than that. */
export function failureLine(type: string, message: string): string {
  return type === "" || message === type || message.startsWith(`${type}:`) ? message : `${type}: ${message}`;
}

/** The `error` of a job whose function raised; travels as a JSON string. */
export interface JobFailure {
  readonly error_type: string;
  readonly error_message: string;
  /** The user's frames only. */
  readonly error_traceback: string;
  readonly hostname?: string;
  readonly worker_id?: string;
  readonly svc_version?: string;
}

/** The first line of a job's `error`, with the type of what was raised. */
export function errorLine(error: string, charsMax: number): string {
  const failure = failureOf(error);
  const [line = ""] = (failure === undefined ? error : failureLine(failure.error_type, failure.error_message)).split(
    "\n",
  );
  return line.length > charsMax ? `${line.slice(0, charsMax - 1)}…` : line;
}

/** What the log says of an attempt after which another follows: "attempt 2 of 4 failed: ValueError: no such colour, again in 4s". */
export function attemptLine(failed: {
  readonly attempt: number;
  readonly of: number;
  readonly error: string;
  readonly waitMs: number;
}): string {
  const { attempt, of, error, waitMs } = failed;
  const cause = errorLine(error, Number.POSITIVE_INFINITY);
  return `[svc] attempt ${attempt} of ${of} failed: ${cause}, again in ${waitMs < 1000 ? `${waitMs}ms` : `${Number((waitMs / 1000).toFixed(1))}s`}\n`;
}

/** The failure that a job's `error` holds; undefined for a plain text. */
export function failureOf(error: string): JobFailure | undefined {
  if (!error.startsWith("{")) return undefined;
  try {
    const failure = JSON.parse(error) as Partial<JobFailure>;
    return failure.error_type === undefined ? undefined : (failure as JobFailure);
  } catch {
    return undefined;
  }
}
