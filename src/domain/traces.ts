/** Spans of jobs and requests, where traces are collected (docs/reference/metrics.md). */
import type { HeaderList, ServedRequest } from "./request.ts";
import type { WorkerBoot } from "./worker.ts";

/** Whose call it is. */
export interface TracedEndpoint {
  readonly id: string;
  readonly name: string;
}

export interface TracedJob {
  readonly id: string;
  readonly state: string;
  readonly workerId: string;
  /** Milliseconds since the epoch; null when it never ran. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number;
}

/** A load-balanced request on its way. */
export interface RequestTrace {
  /** For the function: what it calls belongs to this request. */
  readonly headers: HeaderList;
  end(status: number, served: ServedRequest | undefined): void;
}

export interface Traces {
  /** A job is about to be accepted. `traceparent`: its caller's, when that has one. */
  jobSubmitted(jobId: string, endpoint: TracedEndpoint, traceparent: string | undefined): void;
  /** It was refused, or named another. */
  jobDropped(jobId: string): void;
  /** It goes to a worker. Returns the traceparent for its function; undefined when the job is not traced. */
  jobHandedOut(jobId: string): string | undefined;
  /** `boot`: of the worker that had it, when that was started for it. */
  jobFinished(job: TracedJob, boot: WorkerBoot | undefined): void;
  request(endpoint: TracedEndpoint, method: string, headers: HeaderList): RequestTrace;
}
