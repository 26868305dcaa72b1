/** What a caller catches when a job ended without an output. */
import { failureLine, type JobFailure } from "../domain/job.ts";
import { parsed } from "./answer-error.ts";
import type { JobRecord } from "./gateway.ts";

/** A job that ended in another way than COMPLETED; `job` is the job as the platform has it. */
export class JobError extends Error {
  readonly job: JobRecord;

  constructor(job: JobRecord, message: string) {
    super(message);
    this.name = new.target.name;
    this.job = job;
  }
}

/** The function raised, or its worker was lost twice. */
export class JobFailedError extends JobError {
  /** Class name of the Python exception; "" when it was not the function that failed. */
  readonly errorType: string;
  /** The remote traceback, the function's own frames only; "" when there is none. */
  readonly traceback: string;

  constructor(job: JobRecord) {
    const failure = parsed<Partial<JobFailure>>(job.error ?? "");
    const type = failure?.error_type ?? "";
    const message = failure?.error_message ?? job.error ?? "The job failed.";
    super(job, failureLine(type, message));
    this.errorType = type;
    this.traceback = failure?.error_traceback ?? "";
  }
}

/** It ran longer than its execution time-out. */
export class JobTimedOutError extends JobError {
  constructor(job: JobRecord) {
    super(job, job.error || "The job ran longer than its time-out.");
  }
}

export class JobCancelledError extends JobError {
  constructor(job: JobRecord) {
    super(job, "The job was cancelled.");
  }
}

/** The output of a final job. Throws the JobError of its state. */
export function outputOf(job: JobRecord): unknown {
  if (job.status === "FAILED") throw new JobFailedError(job);
  if (job.status === "TIMED_OUT") throw new JobTimedOutError(job);
  if (job.status === "CANCELLED") throw new JobCancelledError(job);
  return job.output;
}
