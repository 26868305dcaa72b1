/**
 * The durable job queue. A promise that resolves means the change is committed; a claim carries a fencing token,
 * and every write for a claimed job names it, so a late write of a lost worker changes nothing.
 * Counts come from rows. State machine: src/domain/job.ts. Leases run by a clock that is never set, and count only while
 * the queue is open: a queue that is opened gives every running job a whole one.
 */
import type { JobState } from "../domain/job.ts";

export interface NewJob {
  readonly id: string;
  readonly endpointId: string;
  /** JSON text of `input`, passed on as these bytes. */
  readonly input: Uint8Array;
  /** Nobody else has these bytes, nor others of their buffer, when it is accepted: their memory may be given back. */
  readonly isInputOwn?: boolean;
  /** Method of a class endpoint; "" for a function. */
  readonly method: string;
  readonly webhook: string;
  /** A later job with the same key on the same endpoint is not made; "" for none. */
  readonly idempotencyKey: string;
  readonly lowPriority: boolean;
  readonly executionTimeoutMs: number;
  /** The job is deleted this long after submission unless it is running. */
  readonly ttlMs: number;
  /** How long its result is kept. */
  readonly retentionMs: number;
  /** It may have been accepted before, and its answer lost: by id it is looked for first. */
  readonly isSentAgain?: boolean;
  /** Its caller waits for what comes of it: a short one may run before it is stored, and be stored with its end. */
  readonly isAwaited?: boolean;
}

export interface Enqueued {
  /** Nobody has the bytes of its input any more: their memory may be given back. */
  readonly letGo?: boolean;
  readonly id: string;
  /** False when the idempotency key named an earlier job. */
  readonly created: boolean;
  /** It is final already: only of one that was awaited. */
  readonly job?: Job;
}

/** Of an output or a chunk that was left out, as it is larger than was asked for. */
export interface LeftOut {
  readonly leftOutBytes?: number;
}

export interface Job extends LeftOut {
  readonly id: string;
  readonly endpointId: string;
  readonly state: JobState;
  readonly method: string;
  readonly webhook: string;
  readonly lowPriority: boolean;
  /** JSON text, or the latest progress update while IN_PROGRESS; null when there is none. */
  readonly output: Uint8Array | null;
  /** Nobody else has these bytes: their memory may be given back once they were sent. */
  readonly isOutputOwn?: boolean;
  /** Text, or the JSON of a JobFailure; "" when there is none. */
  readonly error: string;
  /** "" before the first claim. */
  readonly workerId: string;
  /** Times it was handed out again after a worker was lost. */
  readonly retries: number;
  /** Attempts that failed and were followed, or will be, by another. */
  readonly attempts: number;
  /** When the next attempt may begin; null for a job that does not wait for one. */
  readonly dueAt: number | null;
  /** Milliseconds since the epoch; null when it has not happened. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly executionTimeoutMs: number;
  /** Its row is gone: what it was given and gave back is not known any more. */
  readonly expired?: true;
}

/** Names one hand-out of a job to a worker. */
export interface Claim {
  readonly jobId: string;
  readonly fence: number;
}

export interface ClaimedJob extends Claim {
  readonly endpointId: string;
  readonly input: Uint8Array;
  /** Nobody else has these bytes, nor others of their buffer: their memory may be given back once they were sent. */
  readonly isInputOwn?: boolean;
  readonly method: string;
  readonly executionTimeoutMs: number;
  /** Milliseconds from submission to this claim. */
  readonly delayMs: number;
  /** From 1: which attempt this is. */
  readonly attempt: number;
}

/** How often a job whose function raised is tried again, and when. */
export interface Again {
  readonly max: number;
  /** Before the second attempt; before each further one `backoff` times as long, at most `maxDelayMs`. */
  readonly delayMs: number;
  readonly backoff: number;
  readonly maxDelayMs: number;
}

export type Outcome =
  | { readonly state: "COMPLETED"; readonly output: Uint8Array }
  /** With `again` it is queued again after a while, if that is within its attempts and its ttl. */
  | { readonly state: "FAILED"; readonly error: string; readonly output?: Uint8Array; readonly again?: Again }
  | { readonly state: "TIMED_OUT"; readonly error: string };

export interface JobCounts {
  readonly inQueue: number;
  /** Part of inQueue; does not scale up. */
  readonly inQueueLowPriority: number;
  /** Wait for their next attempt; no part of inQueue. */
  readonly delayed: number;
  readonly inProgress: number;
  /** Part of inProgress. */
  readonly inProgressLowPriority: number;
  readonly completed: number;
  readonly failed: number;
  readonly retried: number;
  /** Submission time of the oldest queued job; null when none waits. */
  readonly oldestQueuedAt: number | null;
}

/** The side that changes jobs. */
export interface Queue {
  /**
   * `created` is false when the idempotency key named an earlier job, whose id is returned. Throws QUEUE_FULL when as
   * many jobs as are allowed wait already, BODIES_FULL when its large input does not fit beside those of the endpoint.
   */
  enqueue(job: NewJob): Promise<Enqueued>;
  /**
   * Up to `count` jobs of the endpoint, best first (normal before low priority, then oldest). Waits until there is
   * at least one, and takes none more once their inputs are PREFETCH_MAX_BYTES together; resolves [] when `signal` aborts.
   * A job accepted while a claim waits is inserted and claimed in one commit.
   */
  claim(endpointId: string, workerId: string, count: number, signal: AbortSignal): Promise<ClaimedJob[]>;
  /** Extends the leases to LEASE_MS from now; resolves the claims that are no longer valid (cancelled, lost). */
  renew(claims: readonly Claim[]): Promise<Claim[]>;
  /**
   * Stores the result and frees the slot. False when the fence is stale: the caller drops the result. A large one that does not
   * fit beside the endpoint's others makes the job FAILED with a text that names the limit.
   */
  finish(claim: Claim, outcome: Outcome): Promise<boolean>;
  /**
   * Takes the job back from its worker. "handed-back": not started, queued again as it was.
   * "lost": the worker died; queued again the first time, FAILED with `worker lost after 1 retry: <cause>` the second.
   */
  release(claim: Claim, reason: "handed-back" | "lost", cause?: string): Promise<void>;
  /** Resolves the job as it is after the call (CANCELLED, or unchanged when it was final already); undefined: no such job. */
  cancel(jobId: string): Promise<Job | undefined>;
  /** FAILED or TIMED_OUT goes back IN_QUEUE with its id and input. Resolves false when the state does not allow it. */
  retry(jobId: string): Promise<boolean>;
  /** Deletes the queued jobs of an endpoint and resolves how many they were. */
  purge(endpointId: string): Promise<number>;
}

export interface JobSearch {
  /** All when not given. */
  readonly endpointIds?: readonly string[];
  readonly states?: readonly JobState[];
  /** Of the id, or of the UUID in it. */
  readonly idStart?: string;
  /**
   * When it was submitted, milliseconds since the epoch, both ends included. A job that was retried keeps its place: by its
   * first submission it is looked for.
   */
  readonly from?: number;
  readonly to?: number;
  /** Told the `error` of failed jobs whose rows are there; only those it is true for are found. */
  readonly error?: (text: string, endpointId: string) => boolean;
  readonly limit: number;
  /** `next` of the page before. */
  readonly before?: number;
}

export interface FoundJob extends Job {
  /** When a final job's bodies go; null for others, and once they are gone. */
  readonly expiresAt: number | null;
}

/** Without outputs. Of an expired job `error` is the first line, with its type. */
export interface FoundJobs {
  readonly jobs: readonly FoundJob[];
  /**
   * Of the page that follows; undefined after the last. A page may be short, or empty, before the last one: only so many jobs
   * are looked at for one.
   */
  readonly next: number | undefined;
}

/** The side that looks, waits, and reports what a worker said meanwhile. */
export interface JobReader {
  /** Without an output that lies outside its row and is larger than `outputMaxBytes`. */
  find(jobId: string, outputMaxBytes?: number): Promise<Job | undefined>;
  /** A final job whose row is gone, as long as it is known at all. */
  findExpired(jobId: string): Promise<Job | undefined>;
  /** JSON text of the job's input; undefined when there is no such job, or it is larger than `maxBytes`. */
  input(jobId: string, maxBytes?: number): Promise<Uint8Array | undefined>;
  /** Newest first; `idStart`: those whose id, or the UUID in it, begins so; `expired`: with those whose rows are gone. */
  list(
    endpointId: string,
    options: { state?: JobState; limit: number; before?: string; idStart?: string; expired?: boolean },
  ): Promise<Job[]>;
  /** Newest first over many endpoints, with those whose rows are gone. Never holds up the queue: long searches take turns with it. */
  search(search: JobSearch): Promise<FoundJobs>;
  counts(endpointId: string): Promise<JobCounts>;
  /** What a worker holds now: compared with what it says it holds when it comes back after a break. */
  claimsOf(workerId: string): Promise<Claim[]>;
  /** The job as soon as it is final, or as it is when `timeoutMs` have passed or `signal` aborts; undefined: no such job. */
  wait(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job | undefined>;
}

export interface ChunksThere extends LeftOut {
  readonly state: JobState;
  readonly chunks: Uint8Array[];
}

/** What a running job says before it is done. Not needed to survive a crash of the platform beyond what is committed. */
export interface JobProgress {
  /** Replaces the job's output while it is IN_PROGRESS, if it can be stored and fits beside the endpoint's others. */
  progress(claim: Claim, output: Uint8Array): Promise<void>;
  /**
   * Appends a chunk (JSON text) of a generator's output. A job whose chunks would be more than are kept is FAILED with a text
   * that names the limit, and its worker is told.
   */
  chunk(claim: Claim, output: Uint8Array): Promise<void>;
  /**
   * Hands out the chunks not yet handed out, each once. Waits up to `holdMs` for the first one or the final state.
   * At most STREAM_ANSWER_MAX_BYTES of them and one at least; a final state stands only where nothing is left.
   * `run`: how often the job had begun anew when it gave them. undefined: no such job.
   * A next one that is larger than `chunkMaxBytes` stays, and how large it is is told instead.
   */
  takeChunks(
    jobId: string,
    holdMs: number,
    signal?: AbortSignal,
    chunkMaxBytes?: number,
  ): Promise<(ChunksThere & { readonly run: number }) | undefined>;
  /**
   * Gives `take` the chunks of a running job's run as they come, each in the turn in which it comes: those that takeChunks would give
   * next, as long as it says true. False, at once, where takeChunks has to say what there is; else true, when that is so:
   * the run has ended, others look at its chunks too, `take` said false, `signal` aborted, `holdMs` have passed.
   */
  followChunks(
    jobId: string,
    run: number,
    holdMs: number,
    take: (chunk: Uint8Array) => boolean,
    signal?: AbortSignal,
  ): Promise<boolean>;
  /** True when a chunk went to one who follows its job, and nothing is left to be done; else it is for chunk(). */
  passChunk(claim: Claim, output: Uint8Array): boolean;
  /**
   * The chunks behind the one numbered `after` (0: all) with their numbers, which rise, also from one run of the job to
   * the next. They stay: who lost an answer asks again. Waits as takeChunks does, and as many. Of one job, use one of the two.
   */
  readChunks(
    jobId: string,
    after: number,
    holdMs: number,
    signal?: AbortSignal,
    chunkMaxBytes?: number,
  ): Promise<(ChunksThere & { readonly numbers: number[] }) | undefined>;
}

/** A final job whose caller wants to be told. */
export interface Delivery {
  readonly id: number;
  readonly jobId: string;
  readonly url: string;
  /** Host and port of `url`. */
  readonly host: string;
  /** Attempts that failed. */
  readonly failures: number;
}

/**
 * Webhooks to deliver: each is written with its job's final state and kept until it is settled, and the job with it. A
 * retry of the job drops the one that was not delivered yet.
 */
export interface WebhookOutbox {
  /** What is due by now, longest due first. */
  dueDeliveries(limit: number, exceptHosts: readonly string[]): Promise<Delivery[]>;
  /** Delivered, or given up when `retryAt` is null and it failed; else due again at `retryAt` (milliseconds since the epoch). */
  settleDelivery(id: number, retryAt: number | null): Promise<void>;
}

/** Where the schedule of an endpoint is. */
export interface ScheduleState {
  /** The schedule that this is of. */
  readonly spec: string;
  /** Ticks up to then are over (milliseconds since the epoch). */
  readonly until: number;
  readonly paused: boolean;
  /** The last tick that was due; null before the first. */
  readonly tick: number | null;
  /** Its job; "" when it was left out. */
  readonly jobId: string;
}

/** Each tick of a schedule is made a job once, whoever tries how often. */
export interface ScheduleBook {
  /** undefined before the first setSchedule. */
  scheduleOf(endpointId: string): Promise<ScheduleState | undefined>;
  setSchedule(endpointId: string, state: Pick<ScheduleState, "spec" | "until" | "paused">): Promise<void>;
  /**
   * Enqueues the job of a tick and notes that ticks up to `until` are over, in one transaction; without a job the tick is left
   * out. False, and nothing is changed, when the tick is over already or the schedule is paused. Throws as enqueue does.
   */
  tick(endpointId: string, tick: number, until: number, job: NewJob | undefined): Promise<boolean>;
}

/** Upkeep, called by the reconcilers. */
export interface JobUpkeep {
  /**
   * The jobs of the endpoint that wait now are FAILED with `error`, those that come later wait. Resolves how many they were. Where several
   * platforms share the endpoints, those that another has by then are left to it, and 0 is resolved.
   */
  failQueued(endpointId: string, workerId: string, error: string): Promise<number>;
  /** The same for jobs of /runsync whose callers wait still. */
  failAwaited(endpointId: string, workerId: string, error: string): Promise<number>;
  /** Releases as "lost" every claim whose lease has passed. Resolves how many. */
  expireLeases(): Promise<number>;
  /** At start: gives workers that survived the platform time to come back. Sets every lease to `ms` from now. */
  graceLeases(ms: number): Promise<void>;
  /** Queues the jobs whose next attempt is due; the queue does so by itself. Resolves how many. */
  wakeDelayed(): Promise<number>;
  /** Deletes jobs past their ttl or retention, the oldest of too many failed ones, and blobs no row names. Resolves how many jobs. */
  sweep(): Promise<number>;
  /** Deletes every job of an endpoint that is gone, and where its schedule was. */
  forget(endpointId: string): Promise<void>;
  /** Endpoints that had a job or a schedule and were not forgotten since. */
  endpointIds(): Promise<string[]>;
}

export interface DelayedJob {
  readonly id: string;
  readonly endpointId: string;
  readonly workerId: string;
  /** The attempt that failed, from 1, and how many there are. */
  readonly attempt: number;
  readonly of: number;
  readonly error: string;
  /** Until the next one. */
  readonly waitMs: number;
}

export interface FinishedJob {
  readonly id: string;
  readonly endpointId: string;
  readonly state: JobState;
  readonly webhook: string;
  /** The last that had it; "" when none did. */
  readonly workerId: string;
  /** Milliseconds since the epoch; null when it never ran. */
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number;
}

export interface QueueEvents {
  /** A job waits and no pending claim took it. */
  jobQueued(listener: (endpointId: string) => void): void;
  /** A running job was cancelled, or failed for what its worker sends: the worker must be told. */
  jobCancelled(listener: (claim: Claim & { workerId: string }) => void): void;
  /** An attempt failed, and another follows. */
  jobDelayed(listener: (job: DelayedJob) => void): void;
  /** A job reached a final state (webhooks, scaling, series). */
  jobFinished(listener: (job: FinishedJob) => void): void;
}

/** All that calls need. */
export type CallerJobs = Pick<Queue, "enqueue" | "cancel" | "retry" | "purge"> &
  Pick<JobReader, "find" | "findExpired" | "input" | "list" | "counts" | "wait"> &
  Pick<JobProgress, "takeChunks" | "readChunks"> &
  Partial<Pick<JobProgress, "followChunks">> & {
    /** enqueue and wait in one, where that saves a way there and back. `created` as enqueue says it. */
    readonly call?: (
      job: NewJob,
      timeoutMs: number,
      signal: AbortSignal,
    ) => Promise<{ readonly created: boolean; readonly job: Job | undefined }>;
  };

export interface JobQueue extends Queue, JobReader, JobProgress, WebhookOutbox, ScheduleBook, JobUpkeep {
  readonly events: QueueEvents;
  close(): Promise<void>;
}
