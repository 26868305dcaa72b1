/**
 * Claims that wait for jobs. A job goes to the worker that runs the fewest, so that an idle one is served before another
 * fills its prefetch; among equals to the one that was served last. So little work keeps one worker warm, and the others
 * become idle for long enough to be stopped. A worker whose last job failed comes after its equals, in turn with others
 * like it: one that fails fast must not draw all jobs to itself. The answers leave after the commit.
 */

import { PREFETCH_MAX_BYTES, QUEUE_READ_ROWS } from "../../domain/limits.ts";
import type { ClaimedJob } from "../queue.ts";
import { type Body, IN_QUEUE, type JobRow, sizeOf } from "./job-row.ts";
import type { EndpointState, LiveState, PendingClaim, RunningJob } from "./live-state.ts";

export type QueuedRow = JobRow & { readonly input: Body };

export interface ClaimHooks {
  /** The first queued jobs of an endpoint, best first. Part of a batch. */
  nextQueued(endpoint: EndpointState, count: number): readonly QueuedRow[];
  /** A queued job runs now: its row gets the fence that is returned. Part of a batch. */
  claimed(row: QueuedRow, workerId: string, now: number): number;
  /** The bytes that are not in the row; undefined when they are gone. */
  readBody(reference: string): Promise<Uint8Array | undefined>;
  /** A queued job past its ttl. Part of a batch. */
  deleteExpired(seq: number, id: string): void;
  /** A claim waits again. */
  waitsAgain(endpoint: EndpointState): Promise<unknown>;
  /** Reads again when that failed for want of something that is back. */
  keep<T>(read: () => Promise<T>): Promise<T>;
}

export class PendingClaims {
  readonly #live: LiveState;
  readonly #hooks: ClaimHooks;
  /** A job whose input file cannot be read any more. Set by who ends jobs. */
  inputLost: (job: RunningJob) => Promise<unknown> = async () => {};
  #served: PendingClaim[] = [];
  /** One listener for each signal, however many claims it sees: adding listeners is slow. */
  readonly #bySignal = new WeakMap<AbortSignal, Set<PendingClaim>>();

  constructor(live: LiveState, hooks: ClaimHooks) {
    this.#live = live;
    this.#hooks = hooks;
  }

  add(claim: PendingClaim): void {
    claim.endpoint.claims.push(claim);
    let claims = this.#bySignal.get(claim.signal);
    if (claims === undefined) {
      const mine = new Set<PendingClaim>();
      claims = mine;
      this.#bySignal.set(claim.signal, mine);
      claim.signal.addEventListener("abort", () => {
        for (const pending of mine) this.#withdraw(pending);
        mine.clear();
      });
    }
    claims.add(claim);
  }

  /** The claim that gets the next job. Part of a batch. */
  next(endpoint: EndpointState): PendingClaim | undefined {
    let best: PendingClaim | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const claim of endpoint.claims) {
      const runs = endpoint.busy.get(claim.workerId) ?? 0;
      if (runs > least || (runs === least && endpoint.failing.has(claim.workerId))) continue;
      least = runs;
      best = claim;
    }
    return best;
  }

  /** Gives a job to the claim `next` named. Part of a batch; the row is the caller's. */
  give(claim: PendingClaim, job: RunningJob, input: Body, isInputOwn?: boolean): void {
    const { claims } = claim.endpoint;
    claims.splice(claims.indexOf(claim), 1);
    if (claim.given.length === 0) this.#served.push(claim);
    claim.given.push({ job, input, isInputOwn });
    claim.bytes += typeof input === "string" ? sizeOf(input) : input.byteLength;
    claim.room = claim.bytes < PREFETCH_MAX_BYTES ? claim.room - 1 : 0;
    if (claim.room > 0) claims.push(claim);
  }

  /** Hands queued jobs to the waiting claims. Part of a batch. */
  feed(endpoint: EndpointState, now: number): void {
    while (endpoint.claims.length > 0 && endpoint.inQueue > 0) {
      const room = endpoint.claims.reduce((sum, claim) => sum + claim.room, 0);
      const count = Math.min(room, QUEUE_READ_ROWS);
      const rows = this.#hooks.nextQueued(endpoint, count);
      if (rows.length === 0) return;
      for (const row of rows) {
        if (endpoint.claims.length === 0) return;
        this.#live.count(endpoint, IN_QUEUE, row.low_priority === 1, -1);
        if (row.expires_at <= now) this.#hooks.deleteExpired(row.seq, row.id);
        else this.#hand(row, now);
      }
    }
  }

  /** After the commit: answers the claims that were served. */
  deliver(): void {
    if (this.#served.length > 0) this.#answer(this.#served.splice(0));
  }

  /** Before it: answers those that were given no other jobs than these. */
  deliverEarly(isEarly: (jobId: string) => boolean): void {
    const early = this.#served.filter(({ given }) => given.every(({ job }) => isEarly(job.id)));
    if (early.length === 0) return;
    this.#served = this.#served.filter((claim) => !early.includes(claim));
    this.#answer(early);
  }

  #answer(served: readonly PendingClaim[]): void {
    for (const claim of served) {
      this.#bySignal.get(claim.signal)?.delete(claim);
      const { endpoint, given } = claim;
      for (const { job } of given) this.#live.given(job);
      if (claim.room > 0) endpoint.claims = endpoint.claims.filter((other) => other !== claim);
      if (given.some(({ input }) => typeof input === "string")) this.#readInputs(claim).catch(claim.reject);
      else claim.resolve(given.map(({ job, input, isInputOwn }) => claimedJob(job, input as Uint8Array, isInputOwn)));
    }
  }

  /** The batch was not written: rejects every claim it touched. */
  fail(touched: Iterable<EndpointState>, error: unknown): void {
    const claims = new Set(this.#served);
    this.#served = [];
    for (const endpoint of touched) for (const claim of endpoint.claims) claims.add(claim);
    for (const claim of claims) this.refuse(claim, error);
  }

  /** It waits no more: whoever made it is told why, and a job given to it later would be lost. */
  refuse(claim: PendingClaim, error: unknown): void {
    this.#bySignal.get(claim.signal)?.delete(claim);
    claim.endpoint.claims = claim.endpoint.claims.filter((other) => other !== claim);
    claim.reject(error);
  }

  /** The batch could not be stored: what was given in it is not, and those who got it wait on. */
  takeBack(): void {
    for (const claim of this.#served.splice(0)) {
      if (claim.room === 0 && !claim.signal.aborted) claim.endpoint.claims.push(claim);
      empty(claim);
      if (claim.signal.aborted) claim.resolve([]);
    }
  }

  close(live: LiveState): void {
    for (const endpoint of live.endpoints.values()) {
      for (const claim of endpoint.claims.splice(0)) claim.resolve([]);
    }
  }

  #withdraw(claim: PendingClaim): void {
    const { endpoint, workerId } = claim;
    endpoint.claims = endpoint.claims.filter((other) => other !== claim);
    endpoint.failing.delete(workerId);
    // What it was given in a batch that is being written is its own, and comes with the commit.
    if (claim.given.length === 0) claim.resolve([]);
  }

  #hand(row: QueuedRow, now: number): void {
    const claim = this.next(this.#live.of(row.endpoint))!;
    const fence = this.#hooks.claimed(row, claim.workerId, now);
    this.give(claim, this.#live.start(row, fence, claim.workerId, now), row.input);
  }

  async #readInputs(claim: PendingClaim): Promise<void> {
    const jobs: ClaimedJob[] = [];
    try {
      for (const { job, input, isInputOwn } of claim.given) {
        const isRead = typeof input === "string";
        const bytes = isRead ? await this.#hooks.keep(() => this.#hooks.readBody(input)) : input;
        if (bytes !== undefined) jobs.push(claimedJob(job, bytes, isRead || isInputOwn));
        else await this.inputLost(job);
      }
    } catch (error) {
      claim.reject(error);
      return;
    }
    if (jobs.length > 0 || claim.signal.aborted) {
      claim.resolve(jobs);
      return;
    }
    empty(claim);
    this.add(claim);
    this.#hooks.waitsAgain(claim.endpoint).catch(claim.reject);
  }
}

function empty(claim: PendingClaim): void {
  claim.room += claim.given.length;
  claim.given.length = 0;
  claim.bytes = 0;
}

function claimedJob(job: RunningJob, input: Uint8Array, isInputOwn = false): ClaimedJob {
  const claimed = {
    jobId: job.id,
    fence: job.fence,
    endpointId: job.endpoint.id,
    input,
    method: job.method,
    executionTimeoutMs: job.executionTimeoutMs,
    delayMs: job.startedAt - job.createdAt,
    attempt: job.attempts + 1,
  };
  return isInputOwn ? { ...claimed, isInputOwn } : claimed;
}
