/**
 * What every part of the queue shares: statements, live state, and the batch that is being written. Work done in
 * run() records what happened; the effects (answers to claims, events, waiters) follow only after the commit.
 */
import { JOB_STATES } from "../../domain/job.ts";
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import { type StorageWatch, storageFull, UNWATCHED } from "../../domain/storage.ts";
import { GroupCommit } from "../../lib/group-commit.ts";
import type { SqliteDatabase } from "../../lib/sqlite.ts";
import type { Claim, DelayedJob, FinishedJob, Job } from "../queue.ts";
import type { BodyFiles } from "./body-files.ts";
import { DelayedJobs } from "./delayed.ts";
import { type EndpointState, FAILED, LiveState, TIMED_OUT } from "./live-state.ts";
import { PendingClaims } from "./pending-claims.ts";
import { type Body, prepareStatements, type Statements } from "./statements.ts";

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
  /** Bytes of the inputs, outputs and errors of one endpoint's jobs that lie in files. */
  readonly bodiesKeptMax: number;
  /** Final jobs of one endpoint and state that are known after their rows are gone. */
  readonly expiredKeptMax: number;
}

interface QueueClocks {
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Milliseconds of a clock that is never set. */
  readonly monotonic: () => number;
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

/** Bodies: those in files. */
interface DeletedRow {
  readonly endpoint: number;
  readonly hooked: number;
  readonly input: string | null;
  readonly output: string | null;
  readonly error: string | null;
}

export class QueueCore {
  readonly sql: Statements;
  readonly live: LiveState;
  readonly files: BodyFiles;
  readonly claims: PendingClaims;
  readonly delays: DelayedJobs;
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
  readonly #commit: GroupCommit;

  readonly queuedListeners: ((endpointId: string) => void)[] = [];
  readonly cancelledListeners: ((claim: Claim & { workerId: string }) => void)[] = [];
  readonly finishedListeners: ((job: FinishedJob) => void)[] = [];

  readonly delayedListeners: ((job: DelayedJob) => void)[] = [];

  #touched = new Set<EndpointState>();
  #finished: Finished[] = [];
  #cancelled: (Claim & { workerId: string })[] = [];
  #delayed: DelayedJob[] = [];
  #chunked: string[] = [];
  #deleted: string[] = [];

  constructor(
    database: SqliteDatabase,
    files: BodyFiles,
    { clock, monotonic }: QueueClocks,
    bounds: QueueBounds,
    storage: StorageWatch = UNWATCHED,
  ) {
    this.sql = prepareStatements(database.connection);
    this.live = new LiveState(this.sql, monotonic);
    this.files = files;
    this.clock = clock;
    this.monotonic = monotonic;
    const opened = clock() - monotonic();
    this.steady = () => Math.round(opened + monotonic());
    this.bounds = bounds;
    this.storage = storage;
    for (const endpoint of this.live.endpoints.values()) {
      if (endpoint.failed > 0) this.failedSince.add(endpoint);
      this.finalSince.add(endpoint);
      this.expiredSince.add(endpoint);
    }
    this.claims = new PendingClaims(this.sql, this.live, files, {
      deleteExpired: (seq, id) => this.delete(seq, id),
      waitsAgain: (endpoint) => this.keep(() => this.touch(endpoint)),
      keep: (read) => storage.keep(read),
    });
    this.#commit = new GroupCommit(database, {
      beforeCommit: () => this.#beforeCommit(),
      afterCommit: () => this.#afterCommit(),
      rolledBack: (error) => this.#rolledBack(error),
    });
    this.delays = new DelayedJobs(this.sql, this.live, {
      steady: this.steady,
      touch: (endpoint) => this.touch(endpoint),
      keep: (work) => this.keep(work),
    });
  }

  /** Part of the next transaction; resolves after its commit. */
  run<T>(work: () => T): Promise<T> {
    return this.#commit.run(work);
  }

  /** As run, for what a caller can try again: refused at once while it could not be stored. */
  offer<T>(write: () => Promise<T>): Promise<T> {
    const { lack } = this.storage;
    return lack === undefined ? write() : Promise.reject(storageFull(lack));
  }

  /** As run, for what must not be lost: while it cannot be stored it waits, behind what came before. */
  keep<T>(work: () => T): Promise<T> {
    return this.storage.keep(() => this.run(work));
  }

  close(reason: Error): void {
    this.delays.close();
    this.#commit.close(reason);
    this.claims.close(this.live);
    this.finals.notifyAll();
    this.chunks.notifyAll();
  }

  // Recorded by work inside run().

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

  readonly isNamed = (digest: string): boolean => this.sql.namesFile.get(digest) !== undefined;

  /** A row of the endpoint was given these bodies. */
  named(endpoint: EndpointState, ...bodies: (Body | null)[]): void {
    for (const body of bodies) if (typeof body === "string") endpoint.files.named(body);
  }

  /** A row of the endpoint has these bodies no more. */
  unnamed(endpoint: EndpointState, ...bodies: (Body | null)[]): void {
    for (const body of bodies) {
      if (typeof body !== "string") continue;
      endpoint.files.unnamed(body);
      this.files.dropped(body);
    }
  }

  /** Deletes a job's row, its chunks and what its files were kept for. The caller keeps the counts right. */
  delete(seq: number, id: string): void {
    const row = this.sql.delete.get(seq) as DeletedRow | undefined;
    if (row !== undefined) {
      const endpoint = this.live.of(row.endpoint);
      this.unnamed(endpoint, row.input, row.output, row.error);
      if (row.hooked === 1) this.sql.dropWebhook.run(seq);
      this.dropChunks(seq, id, endpoint);
    }
    this.#deleted.push(id);
  }

  dropChunks(seq: number, id: string, endpoint: EndpointState): void {
    if (this.sql.anyChunk.get(seq) === undefined) return;
    for (const { bytes, body } of this.sql.dropChunks.all(seq) as unknown as { bytes: number; body: Body }[]) {
      this.live.chunks(endpoint, id, -(bytes + STREAM_CHUNK_COST_BYTES));
      if (typeof body === "string") this.files.dropped(body);
    }
  }

  #beforeCommit(): void {
    for (const endpoint of this.#touched) {
      if (endpoint.claims.length > 0 && endpoint.inQueue > 0) this.claims.feed(endpoint, this.clock());
    }
  }

  #afterCommit(): void {
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
      for (const listener of this.finishedListeners) listener(event);
    }
    if (this.#delayed.length > 0) {
      for (const job of this.#delayed.splice(0)) for (const listener of this.delayedListeners) listener(job);
    }
    for (const claim of cancelled) for (const listener of this.cancelledListeners) listener(claim);
    for (const endpoint of touched) {
      if (endpoint.inQueue > 0) for (const listener of this.queuedListeners) listener(endpoint.id);
    }
  }

  #wake(id: string, job?: Job): void {
    this.finals.notify(id, job);
    this.chunks.notify(id);
  }

  #rolledBack(error: unknown): unknown {
    const lack = this.storage.noticed(error);
    if (lack === undefined) this.claims.fail(this.#touched, error);
    else this.claims.takeBack();
    this.#touched = new Set();
    this.#finished = [];
    this.#cancelled = [];
    this.#delayed = [];
    this.#chunked = [];
    this.#deleted = [];
    this.live.load();
    return lack === undefined ? error : storageFull(lack, error);
  }
}

/** Callers that wait for something to happen to a job. A waiter is called once and then forgotten. */
class Waiters {
  readonly #byJob = new Map<string, Set<(job: Job | undefined) => void>>();

  has(jobId: string): boolean {
    return this.#byJob.has(jobId);
  }

  jobIds(): string[] {
    return [...this.#byJob.keys()];
  }

  /**
   * Resolves when the job is notified, `timeoutMs` have passed or `signal` aborts: with the job when the one who
   * notified had it at hand, else undefined.
   */
  wait(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job | undefined> {
    if (timeoutMs <= 0 || signal?.aborted) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const done = (job: Job | undefined) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", giveUp);
        resolve(job);
      };
      const giveUp = () => {
        const waiting = this.#byJob.get(jobId);
        waiting?.delete(done);
        if (waiting?.size === 0) this.#byJob.delete(jobId);
        done(undefined);
      };
      const timer = setTimeout(giveUp, timeoutMs);
      signal?.addEventListener("abort", giveUp);
      const waiting = this.#byJob.get(jobId);
      if (waiting === undefined) this.#byJob.set(jobId, new Set([done]));
      else waiting.add(done);
    });
  }

  notify(jobId: string, job?: Job): void {
    const waiting = this.#byJob.get(jobId);
    if (waiting === undefined) return;
    this.#byJob.delete(jobId);
    for (const done of waiting) done(job);
  }

  notifyAll(): void {
    for (const jobId of [...this.#byJob.keys()]) this.notify(jobId);
  }
}
