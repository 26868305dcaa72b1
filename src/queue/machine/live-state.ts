/**
 * What the queue keeps in memory about its rows: counts of each endpoint and the running jobs. Both change together
 * with the rows in one batch, and are read again from the rows at start and after a batch that failed. It knows no database.
 */
import { JOB_STATES } from "../../domain/job.ts";
import { LEASE_MS } from "../../domain/limits.ts";
import { movedAway } from "../../domain/own-endpoints.ts";
import type { Claim, ClaimedJob, Job, JobCounts } from "../queue.ts";
import {
  type Body,
  COMPLETED,
  DELAYED,
  FAILED,
  IN_PROGRESS,
  IN_QUEUE,
  type JobRow,
  sizeOf,
  TIMED_OUT,
} from "./job-row.ts";

/** How much of the average the newest run is. */
const RUNS_AVERAGED = 8;

export interface EndpointState {
  readonly id: string;
  /** Its row's number; 0 while it has no row. */
  number: number;
  inQueue: number;
  inQueueLowPriority: number;
  delayed: number;
  inProgress: number;
  inProgressLowPriority: number;
  completed: number;
  failed: number;
  retried: number;
  /** What the chunks of its jobs count, those that are stored. */
  chunkBytes: number;
  /** Of the inputs, outputs and errors of its jobs. */
  files: EndpointFiles;
  /** Running jobs of each worker that has any. */
  busy: Map<string, number>;
  /** Workers whose last job did not complete. */
  failing: Set<string>;
  /** Claims that wait for a job, longest waiting first. While there are any, no job of the endpoint is queued. */
  claims: PendingClaim[];
  /** Milliseconds from the hand-out of a job to its end, newer ones counting more; undefined before the first. */
  runMs: number | undefined;
}

export interface PendingClaim {
  readonly endpoint: EndpointState;
  readonly workerId: string;
  readonly signal: AbortSignal;
  /** Jobs it still takes: none when the inputs of those given are large enough together. */
  room: number;
  /** Of the inputs of those given. */
  bytes: number;
  /** Given in the batch that is being written. */
  readonly given: { readonly job: RunningJob; readonly input: Body; readonly isInputOwn?: boolean | undefined }[];
  readonly resolve: (jobs: ClaimedJob[]) => void;
  readonly reject: (error: unknown) => void;
}

export interface RunningJob {
  readonly seq: number;
  readonly id: string;
  readonly endpoint: EndpointState;
  readonly fence: number;
  readonly workerId: string;
  readonly lowPriority: boolean;
  readonly retries: number;
  /** Attempts before this one that failed. */
  readonly attempts: number;
  readonly createdAt: number;
  readonly startedAt: number;
  readonly retentionMs: number;
  readonly executionTimeoutMs: number;
  readonly method: string;
  readonly webhook: string;
  /** By the monotonic clock. Leases are in no row: whoever opens the rows gives every running job a whole one. */
  leaseUntil: number;
  /** By the same clock: when its worker got it here. */
  givenAt: number;
  /** What its stored chunks count. */
  chunkBytes: number;
  /** What refers to the file of the last progress update; null when it is in the row or there is none. */
  outputFile: string | null;
}

/** What is in memory, as it was read from rows. */
export interface StoredState {
  /** Completed and failed: those that are in no count of `counts`. */
  readonly endpoints: Iterable<{
    readonly number: number;
    readonly id: string;
    readonly completed: number;
    readonly failed: number;
    readonly retried: number;
  }>;
  /** By number of the endpoint. */
  readonly counts: Iterable<{
    readonly endpoint: number;
    readonly state: number;
    readonly lowPriority: boolean;
    readonly n: number;
  }>;
  readonly running: Iterable<JobRow & { readonly outputFile: string | null }>;
  /** What each row refers to outside. */
  readonly files: Iterable<{ readonly endpoint: number; readonly reference: string }>;
  /** What the chunks of a job count. */
  readonly streams: Iterable<{ readonly id: string; readonly endpoint: number; readonly bytes: number }>;
}

export class LiveState {
  readonly #monotonic: () => number;
  readonly endpoints = new Map<string, EndpointState>();
  readonly running = new Map<string, RunningJob>();
  #byNumber = new Map<number, EndpointState>();
  /** Ids of endpoints that only rows are known of, by their number. */
  readonly #elsewhere = new Map<number, string>();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Takes what was read from the rows; the waiting claims stay, and the leases of those that run on. */
  load(rows: StoredState): void {
    const before = new Map(this.running);
    this.#byNumber = new Map();
    this.running.clear();
    for (const endpoint of this.endpoints.values()) Object.assign(endpoint, { number: 0, ...noJobs() });
    this.add(rows, before);
  }

  /** Takes more that was read, of other endpoints. */
  add(rows: StoredState, before: ReadonlyMap<string, RunningJob> = new Map()): void {
    for (const { number, id, completed, failed, retried } of rows.endpoints) {
      const endpoint = this.endpoint(id);
      Object.assign(endpoint, { completed, failed, retried });
      this.numbered(endpoint, number);
    }
    for (const { endpoint, state, lowPriority, n } of rows.counts) {
      this.count(this.of(endpoint), state, lowPriority, n);
    }
    for (const job of rows.running) {
      const running = this.start(job, job.fence, job.worker_id, job.started_at ?? 0);
      running.outputFile = job.outputFile;
      const known = before.get(job.id);
      if (known?.fence === job.fence) running.leaseUntil = known.leaseUntil;
    }
    for (const { endpoint, reference } of rows.files) this.of(endpoint).files.named(reference);
    for (const { id, endpoint, bytes } of rows.streams) this.chunks(this.of(endpoint), id, bytes);
  }

  /** The endpoint's state, made when it is new. */
  endpoint(id: string): EndpointState {
    const known = this.endpoints.get(id);
    if (known !== undefined) return known;
    const endpoint: EndpointState = { id, number: 0, ...noJobs(), claims: [], runMs: undefined };
    this.endpoints.set(id, endpoint);
    return endpoint;
  }

  /** Throws MOVED when its rows are another's to change. */
  of(number: number): EndpointState {
    const endpoint = this.#byNumber.get(number);
    if (endpoint !== undefined) return endpoint;
    const id = this.#elsewhere.get(number);
    throw id === undefined ? new Error(`queue: no endpoint has the number ${number}`) : movedAway(id);
  }

  /** The endpoint has a row now. Part of a batch. */
  numbered(endpoint: EndpointState, number: number): void {
    endpoint.number = number;
    this.#byNumber.set(number, endpoint);
  }

  /** Forgets an endpoint without jobs, whose row is gone. Part of a batch. */
  removed(endpoint: EndpointState): void {
    this.#byNumber.delete(endpoint.number);
    this.#elsewhere.delete(endpoint.number);
    Object.assign(endpoint, { number: 0, ...noJobs() });
    if (endpoint.claims.length === 0) this.endpoints.delete(endpoint.id);
  }

  /** The endpoint's rows are another's to change: nothing is known of it here. */
  dropped(endpoint: EndpointState): void {
    for (const [id, job] of this.running) if (job.endpoint === endpoint) this.running.delete(id);
    this.#byNumber.delete(endpoint.number);
    if (endpoint.number > 0) this.#elsewhere.set(endpoint.number, endpoint.id);
    this.endpoints.delete(endpoint.id);
  }

  /** Endpoints whose rows are another's to change. */
  elsewhere(endpoints: Iterable<{ readonly number: number; readonly id: string }>): void {
    for (const { number, id } of endpoints) if (!this.#byNumber.has(number)) this.#elsewhere.set(number, id);
  }

  /** Its id; undefined when it was never heard of. */
  idOf(number: number): string | undefined {
    return this.#byNumber.get(number)?.id ?? this.#elsewhere.get(number);
  }

  /** 0 while it has no row that is known. */
  numberOf(id: string): number {
    const here = this.endpoints.get(id)?.number ?? 0;
    return here > 0 ? here : ([...this.#elsewhere].find(([, name]) => name === id)?.[0] ?? 0);
  }

  /** Of all endpoints whose rows are known. */
  get numbers(): number[] {
    return [...this.#byNumber.keys(), ...[...this.#elsewhere.keys()].filter((number) => !this.#byNumber.has(number))];
  }

  /** Forgets endpoints that have no row and workers that are gone. */
  forgetGone(): void {
    for (const endpoint of this.endpoints.values()) {
      const claiming = new Set(endpoint.claims.map((claim) => claim.workerId));
      for (const workerId of endpoint.failing) {
        if (!endpoint.busy.has(workerId) && !claiming.has(workerId)) endpoint.failing.delete(workerId);
      }
      if (endpoint.number === 0 && endpoint.claims.length === 0) this.endpoints.delete(endpoint.id);
    }
  }

  /** A job entered (+1) or left (-1) a state. */
  count(endpoint: EndpointState, state: number, lowPriority: boolean, n: number): void {
    if (state === DELAYED) endpoint.delayed += n;
    else if (state === IN_QUEUE) {
      endpoint.inQueue += n;
      if (lowPriority) endpoint.inQueueLowPriority += n;
    } else if (state === IN_PROGRESS) {
      endpoint.inProgress += n;
      if (lowPriority) endpoint.inProgressLowPriority += n;
    } else if (state === COMPLETED) endpoint.completed += n;
    else if (state === FAILED || state === TIMED_OUT) endpoint.failed += n;
  }

  start(row: JobRow, fence: number, workerId: string, startedAt: number): RunningJob {
    const job: RunningJob = {
      seq: row.seq,
      id: row.id,
      endpoint: this.of(row.endpoint),
      fence,
      workerId,
      lowPriority: row.low_priority === 1,
      retries: row.retries,
      attempts: row.attempts,
      createdAt: row.created_at,
      startedAt,
      retentionMs: row.retention_ms,
      executionTimeoutMs: row.execution_timeout_ms,
      method: row.method,
      webhook: row.webhook,
      leaseUntil: this.lease(),
      givenAt: Number.NEGATIVE_INFINITY,
      chunkBytes: 0,
      outputFile: null,
    };
    this.started(job);
    return job;
  }

  /** The running job a claim still holds; undefined when its fence is stale. */
  held(claim: Claim): RunningJob | undefined {
    const job = this.running.get(claim.jobId);
    return job?.fence === claim.fence ? job : undefined;
  }

  claimsOf(workerId: string): Claim[] {
    const running = [...this.running.values()].filter((job) => job.workerId === workerId);
    return running.map(({ id, fence }) => ({ jobId: id, fence }));
  }

  /** All but when the oldest was queued. */
  countsOf(endpoint: EndpointState | undefined): Omit<JobCounts, "oldestQueuedAt"> {
    return {
      inQueue: endpoint?.inQueue ?? 0,
      inQueueLowPriority: endpoint?.inQueueLowPriority ?? 0,
      delayed: endpoint?.delayed ?? 0,
      inProgress: endpoint?.inProgress ?? 0,
      inProgressLowPriority: endpoint?.inProgressLowPriority ?? 0,
      completed: endpoint?.completed ?? 0,
      failed: endpoint?.failed ?? 0,
      retried: endpoint?.retried ?? 0,
    };
  }

  /** Chunks of a job were stored (+) or are gone (-). Part of a batch. */
  chunks(endpoint: EndpointState, jobId: string, bytes: number): void {
    endpoint.chunkBytes += bytes;
    const job = this.running.get(jobId);
    if (job !== undefined) job.chunkBytes += bytes;
  }

  /** A worker gets it now. */
  given(job: RunningJob): void {
    job.givenAt = this.#monotonic();
  }

  /** Its end has come in. */
  ran({ endpoint, givenAt }: RunningJob): void {
    const ms = this.#monotonic() - givenAt;
    if (ms === Number.POSITIVE_INFINITY) return; // It was read from the rows.
    endpoint.runMs = endpoint.runMs === undefined ? ms : endpoint.runMs + (ms - endpoint.runMs) / RUNS_AVERAGED;
  }

  /** The end of a lease that begins now. */
  lease(ms: number = LEASE_MS): number {
    return this.#monotonic() + ms;
  }

  started(job: RunningJob): void {
    this.running.set(job.id, job);
    this.#run(job, 1);
  }

  /** The job leaves IN_PROGRESS for `state`. */
  stopped(job: RunningJob, state: number): void {
    this.running.delete(job.id);
    this.#run(job, -1);
    this.count(job.endpoint, state, job.lowPriority, 1);
    if (state === FAILED || state === TIMED_OUT || state === DELAYED) job.endpoint.failing.add(job.workerId);
    else if (state === COMPLETED) job.endpoint.failing.delete(job.workerId);
  }

  #run({ endpoint, workerId, lowPriority }: RunningJob, n: number): void {
    this.count(endpoint, IN_PROGRESS, lowPriority, n);
    const running = (endpoint.busy.get(workerId) ?? 0) + n;
    if (running > 0) endpoint.busy.set(workerId, running);
    else endpoint.busy.delete(workerId);
  }
}

function noJobs() {
  return {
    inQueue: 0,
    inQueueLowPriority: 0,
    delayed: 0,
    inProgress: 0,
    inProgressLowPriority: 0,
    completed: 0,
    failed: 0,
    retried: 0,
    chunkBytes: 0,
    files: new EndpointFiles(),
    busy: new Map<string, number>(),
    failing: new Set<string>(),
  };
}

/** What the files of one endpoint's jobs take on the disk. Each counts once, however many rows name it: equal bodies had one file in earlier versions. */
class EndpointFiles {
  /** Reference → rows that name it. */
  readonly #rows = new Map<string, number>();
  bytes = 0;

  has(reference: string): boolean {
    return this.#rows.has(reference);
  }

  named(reference: string): void {
    const rows = this.#rows.get(reference) ?? 0;
    if (rows === 0) this.bytes += sizeOf(reference);
    this.#rows.set(reference, rows + 1);
  }

  unnamed(reference: string): void {
    const rows = this.#rows.get(reference) ?? 0;
    if (rows > 1) this.#rows.set(reference, rows - 1);
    else if (this.#rows.delete(reference)) this.bytes -= sizeOf(reference);
  }
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
    attempts: job.attempts,
    dueAt: null,
    createdAt: job.createdAt,
    startedAt: job.startedAt,
    finishedAt: final?.finishedAt ?? null,
    executionTimeoutMs: job.executionTimeoutMs,
  };
}
