/**
 * What the queue is in memory, beside whatever rows: live state, waiting claims, and what happened in the batch that is
 * being written. Work of a batch records it; the effects (answers to claims, events, waiters) follow only after the commit.
 */
import { JOB_STATES } from "../../domain/job.ts";
import {
  BODIES_KEPT_MAX_BYTES,
  EXPIRED_KEPT_MAX_JOBS,
  FAILED_KEPT_MAX_JOBS,
  FAILED_RETENTION_MS,
  INLINE_BODY_MAX_BYTES,
  QUEUED_MAX_JOBS,
  STREAM_KEPT_MAX_BYTES,
  STREAMS_KEPT_MAX_BYTES,
} from "../../domain/limits.ts";
import { type StorageWatch, storageFull } from "../../domain/storage.ts";
import type { Claim, DelayedJob, FinishedJob, Job, QueueEvents } from "../queue.ts";
import { type Body, COMPLETED, FAILED, TIMED_OUT } from "./job-row.ts";
import { type EndpointState, LiveState } from "./live-state.ts";
import { type ClaimHooks, PendingClaims } from "./pending-claims.ts";
import { Waiters } from "./waiters.ts";

export interface QueueBounds {
  /** Jobs of one endpoint that may wait. */
  readonly queuedMax: number;
  /** FAILED and TIMED_OUT jobs are kept at least so long, */
  readonly failedRetentionMs: number;
  /** but only so many of an endpoint and state, as far as their own retention has passed. */
  readonly failedKeptMax: number;
  /** Chunks of one job, and of all jobs of an endpoint, that are kept. */
  readonly streamKeptMax: number;
  readonly streamsKeptMax: number;
  /** Bytes of the inputs, outputs and errors of one endpoint's jobs that lie outside their rows. */
  readonly bodiesKeptMax: number;
  /** Final jobs of one endpoint and state that are known after their rows are gone. */
  readonly expiredKeptMax: number;
}

const BOUNDS_DEFAULT: QueueBounds = {
  queuedMax: QUEUED_MAX_JOBS,
  failedRetentionMs: FAILED_RETENTION_MS,
  failedKeptMax: FAILED_KEPT_MAX_JOBS,
  streamKeptMax: STREAM_KEPT_MAX_BYTES,
  streamsKeptMax: STREAMS_KEPT_MAX_BYTES,
  bodiesKeptMax: BODIES_KEPT_MAX_BYTES,
  expiredKeptMax: EXPIRED_KEPT_MAX_JOBS,
};

export function boundsWith(changes: Partial<QueueBounds> = {}): QueueBounds {
  return { ...BOUNDS_DEFAULT, ...changes };
}

export interface QueueClocks {
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Milliseconds of a clock that is never set. */
  readonly monotonic: () => number;
}

/** What a queue is opened with, on whatever database. */
export interface QueueOptions {
  /** Milliseconds since the epoch: times that people see and that survive a restart. */
  readonly clock: () => number;
  /** Milliseconds of a clock that is never set: leases. */
  readonly monotonic?: () => number;
  readonly bounds?: Partial<QueueBounds>;
  readonly storage?: StorageWatch;
}

/** What is known of a final job without a look at its row. */
interface JobTimes {
  readonly workerId: string;
  readonly createdAt: number;
  readonly startedAt: number | null;
}

interface Finished {
  readonly id: string;
  readonly endpoint: EndpointState;
  readonly state: number;
  readonly webhook: string;
  readonly times: JobTimes;
  readonly finishedAt: number;
  /** Whole, when somebody waits for it and it was at hand. */
  readonly job: Job | undefined;
}

export abstract class QueueMachine {
  readonly live: LiveState;
  readonly claims: PendingClaims;
  readonly clock: () => number;
  readonly monotonic: () => number;
  /** Milliseconds since the epoch as the clock had it when the queue was opened, and runs on without steps. */
  readonly steady: () => number;
  readonly bounds: QueueBounds;
  readonly storage: StorageWatch;
  /** Endpoints that may have final jobs. */
  readonly finalSince = new Set<EndpointState>();
  /** Endpoints with failed jobs that the last sweep has not seen. */
  readonly failedSince = new Set<EndpointState>();
  /** Endpoints with jobs that expired since the last sweep. */
  readonly expiredSince = new Set<EndpointState>();
  /** Waiting for a final state. */
  readonly finals = new Waiters();
  /** Waiting for a chunk or a final state. */
  readonly chunks = new Waiters();

  readonly #queuedListeners: ((endpointId: string) => void)[] = [];
  readonly #cancelledListeners: ((claim: Claim & { workerId: string }) => void)[] = [];
  readonly #finishedListeners: ((job: FinishedJob) => void)[] = [];
  readonly #delayedListeners: ((job: DelayedJob) => void)[] = [];
  readonly events: QueueEvents = {
    jobQueued: (listener) => void this.#queuedListeners.push(listener),
    jobCancelled: (listener) => void this.#cancelledListeners.push(listener),
    jobDelayed: (listener) => void this.#delayedListeners.push(listener),
    jobFinished: (listener) => void this.#finishedListeners.push(listener),
  };

  #touched = new Set<EndpointState>();
  #finished: Finished[] = [];
  #cancelled: (Claim & { workerId: string })[] = [];
  #delayed: DelayedJob[] = [];
  #chunked: string[] = [];
  #deleted: string[] = [];

  constructor({ clock, monotonic }: QueueClocks, bounds: QueueBounds, storage: StorageWatch, hooks: ClaimHooks) {
    this.live = new LiveState(monotonic);
    this.claims = new PendingClaims(this.live, hooks);
    this.clock = clock;
    this.monotonic = monotonic;
    const opened = clock() - monotonic();
    this.steady = () => Math.round(opened + monotonic());
    this.bounds = bounds;
    this.storage = storage;
  }

  /** Part of the next batch, which it makes so many bytes larger; resolves after its commit. `ends`: the job that it ends. */
  abstract run<T>(work: () => T, options?: { readonly bytes?: number; readonly ends?: string }): Promise<T>;
  /** As run, for what must not be lost: while it cannot be stored it waits, behind what came before. */
  abstract keep<T>(work: () => T): Promise<T>;
  /** Throws MOVED when another has the endpoint's jobs. */
  check(_endpointId: string): void {}
  /** What waits goes to the claims that do. */
  abstract feed(endpoint: EndpointState): Promise<void>;
  /** A row of the endpoint was given these bodies. Part of a batch. */
  abstract named(endpoint: EndpointState, ...bodies: (Body | null)[]): void;
  /** A row of the endpoint has these bodies no more. Part of a batch. */
  abstract unnamed(endpoint: EndpointState, ...bodies: (Body | null)[]): void;

  /** Storing works again: no lease could be renewed meanwhile, and claims may have waited while jobs came back. */
  goOn(): void {
    for (const job of this.live.running.values()) job.leaseUntil = this.live.lease();
    this.feedStarving();
  }

  /** Jobs may wait beside claims that nobody gives them to. */
  protected feedStarving(): void {
    for (const endpoint of this.live.endpoints.values()) {
      const starves = endpoint.claims.length > 0 && endpoint.inQueue > 0;
      // Only a queue that closes gives up: what it holds is looked at again at the next start.
      if (starves) this.feed(endpoint).catch(() => {});
    }
  }

  /** As run, for what a caller can try again: refused at once while it could not be stored. */
  offer<T>(write: () => Promise<T>): Promise<T> {
    const { lack } = this.storage;
    return lack === undefined ? write() : Promise.reject(storageFull(lack));
  }

  /** After the rows were read for the first time: every endpoint may have something to be swept. */
  sweepAll(): void {
    for (const endpoint of this.live.endpoints.values()) {
      if (endpoint.failed > 0) this.failedSince.add(endpoint);
      this.finalSince.add(endpoint);
      this.expiredSince.add(endpoint);
    }
  }

  // Recorded by work of a batch.

  /** A job of the endpoint began to wait, or a claim did. */
  touch(endpoint: EndpointState): void {
    this.#touched.add(endpoint);
  }

  finished(finished: Finished): void {
    const { endpoint, state } = finished;
    this.#finished.push(finished);
    this.finalSince.add(endpoint);
    if (state === FAILED || state === TIMED_OUT) this.failedSince.add(endpoint);
  }

  cancelled(claim: Claim & { workerId: string }): void {
    this.#cancelled.push(claim);
  }

  delayed(job: DelayedJob): void {
    this.#delayed.push(job);
  }

  chunked(jobId: string): void {
    this.#chunked.push(jobId);
  }

  deleted(jobId: string): void {
    this.#deleted.push(jobId);
  }

  /** Failed jobs are the dead letters: they outlast the retention of results. */
  keptMs(state: number, retentionMs: number): number {
    return state === COMPLETED ? retentionMs : Math.max(retentionMs, this.bounds.failedRetentionMs);
  }

  /** The last work of a batch: what began to wait goes to the claims that do. */
  protected handOut(): void {
    for (const endpoint of this.#touched) {
      if (endpoint.claims.length > 0 && endpoint.inQueue > 0) this.claims.feed(endpoint, this.clock());
    }
  }

  /** After the commit: everybody hears of it. Returns the endpoints that work began to wait for. */
  protected release(): ReadonlySet<EndpointState> {
    this.claims.deliver();
    const touched = this.#touched;
    const finished = this.#finished;
    const cancelled = this.#cancelled;
    if (touched.size > 0) this.#touched = new Set();
    if (finished.length > 0) this.#finished = [];
    if (cancelled.length > 0) this.#cancelled = [];
    for (const id of this.#chunked.splice(0)) this.chunks.notify(id);
    for (const id of this.#deleted.splice(0)) this.#wake(id);
    for (const { id, job } of finished) this.#wake(id, job);
    for (const { id, endpoint, state, webhook, times, finishedAt } of finished) {
      const event: FinishedJob = {
        id,
        endpointId: endpoint.id,
        state: JOB_STATES[state]!,
        webhook,
        workerId: times.workerId,
        createdAt: times.createdAt,
        startedAt: times.startedAt,
        finishedAt,
      };
      for (const listener of this.#finishedListeners) listener(event);
    }
    if (this.#delayed.length > 0) {
      for (const job of this.#delayed.splice(0)) for (const listener of this.#delayedListeners) listener(job);
    }
    for (const claim of cancelled) for (const listener of this.#cancelledListeners) listener(claim);
    for (const endpoint of touched) {
      if (endpoint.inQueue > 0) for (const listener of this.#queuedListeners) listener(endpoint.id);
    }
    return touched;
  }

  #wake(id: string, job?: Job): void {
    const output = job?.output?.byteLength ?? 0;
    const isOutputOwn = output > INLINE_BODY_MAX_BYTES && this.finals.count(id) === 1;
    this.finals.notify(id, isOutputOwn ? { ...job!, isOutputOwn } : job);
    this.chunks.notify(id);
  }

  /** Nothing of the batch was written, for this reason: returns what it is rejected with. `comesAgain`: its work is done again. */
  protected takeBack(error: unknown, comesAgain = false): unknown {
    const lack = this.storage.noticed(error);
    if (lack === undefined && !comesAgain) this.claims.fail(this.#touched, error);
    else this.claims.takeBack();
    this.#touched = new Set();
    this.#finished = [];
    this.#cancelled = [];
    this.#delayed = [];
    this.#chunked = [];
    this.#deleted = [];
    return lack === undefined ? error : storageFull(lack, error);
  }

  /** Nobody waits any longer. */
  protected endWaits(): void {
    this.claims.close(this.live);
    this.finals.notifyAll();
    this.chunks.notifyAll();
  }
}
