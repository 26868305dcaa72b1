/**
 * Short jobs whose callers wait run before they are stored, and are stored with their end: one commit in place of two. Nobody is told of
 * one before its commit, not even its id; a batch that is not written takes back what its worker says of it (the fence is of no
 * use then). So a function may have run for a call that was never accepted: SVC_EARLY_HANDOUT=0 has every job stored first.
 */
import { EARLY_RUN_MAX_MS, EARLY_WAIT_MS } from "../../domain/queue-limits.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { PendingClaims } from "../machine/pending-claims.ts";
import type { Waiters } from "../machine/waiters.ts";
import type { Job, NewJob } from "../queue.ts";

export interface EarlyOptions {
  /** Default true. */
  readonly runsEarly?: boolean | undefined;
  readonly inAMoment?: EarlyJobs["inAMoment"];
}

export class EarlyJobs {
  readonly #isWell: () => boolean;
  readonly #isOn: boolean;
  readonly #claims: PendingClaims;
  readonly #finals: Waiters;
  /** Of the batch that is being made or written: by id, who is told of the end. */
  readonly #jobs = new Map<string, (job: Job | undefined) => void>();

  /** Calls `done` when its batch has waited long enough, unless what is returned is called before. */
  readonly inAMoment: (done: () => void) => () => void;

  /** `isWell`: whether what is handed out can be stored, as far as is known. */
  constructor(isWell: () => boolean, claims: PendingClaims, finals: Waiters, options: EarlyOptions) {
    this.#isWell = isWell;
    this.#isOn = options.runsEarly ?? true;
    this.inAMoment = options.inAMoment ?? afterWait;
    this.#claims = claims;
    this.#finals = finals;
  }

  /** Whether the job may run first. One that is sent again, or that others may ask for or hear of, is stored first. */
  allows({ isAwaited, isSentAgain, idempotencyKey, webhook }: NewJob, { runMs }: EndpointState): boolean {
    if (isAwaited !== true || isSentAgain || idempotencyKey !== "" || webhook !== "") return false;
    return runMs !== undefined && runMs < EARLY_RUN_MAX_MS && this.#isOn && this.#isWell();
  }

  /** `ended` is called with the job when it ends in the batch that stores it. Part of a batch. */
  add(jobId: string, ended: (job: Job | undefined) => void): void {
    this.#jobs.set(jobId, ended);
    this.#finals.add(jobId, ended);
  }

  /** Their workers get them, if they have got nothing else that is not stored. Returns them all, by id. */
  handOut(): ReadonlyMap<string, unknown> {
    if (this.#jobs.size > 0) this.#claims.deliverEarly((jobId) => this.#jobs.has(jobId));
    return this.#jobs;
  }

  /** The batch is written, or never will be. */
  over(): void {
    for (const [jobId, ended] of this.#jobs) this.#finals.remove(jobId, ended);
    this.#jobs.clear();
  }
}

function afterWait(done: () => void): () => void {
  const timer = setTimeout(done, EARLY_WAIT_MS);
  return () => clearTimeout(timer);
}
