/**
 * A running job's way on, whatever database its row is in: given to a worker, renewed, finished, lost, queued again, tried again
 * later. Its row, the counts and what others must hear change together, each time as part of a batch. State machine: src/domain/job.ts.
 */
import { JOB_LOSSES_MAX } from "../../domain/limits.ts";
import type { Again, Claim, ClaimedJob, Job, Outcome, Queue } from "../queue.ts";
import type { DelayedJobs } from "./delayed-jobs.ts";
import { type Body, COMPLETED, DELAYED, FAILED, IN_QUEUE, sizeInRow, TIMED_OUT } from "./job-row.ts";
import { type EndpointState, jobOfRunning, type PendingClaim, type RunningJob } from "./live-state.ts";
import type { QueueMachine } from "./machine.ts";
import type { StoredBodies } from "./stored-bodies.ts";

const INPUT_LOST = "the job's input is missing or damaged";
const FINAL_STATES = { COMPLETED, FAILED, TIMED_OUT } as const;

/** What becomes of a running job's row. Each is part of a batch. */
export interface RunningRows {
  /** It is final; a webhook that it has is owed. */
  finished(job: RunningJob, state: number, output: Body | null, error: Body | null, finishedAt: number): void;
  /** It waits again, without what it said: lost so often, by its worker. */
  requeued(job: RunningJob, losses: number): void;
  /** It waits for its next attempt, without what it said. */
  delayed(job: RunningJob, dueAt: number): void;
  /** Its endpoint had one more retry. */
  retried(endpoint: EndpointState): void;
  /** When it is not worth another attempt; undefined when its row is gone. */
  expiresAt(job: RunningJob): number | undefined;
  /** Another replica may take jobs over while their end is on its way. */
  readonly isShared: boolean;
  /**
   * What one hears who does not hold the job: not before it is known that another took it. Throws MOVED when that is for
   * another replica to say.
   */
  notHeld(claim: Claim): Promise<false>;
  /** Those of them that are for another replica to judge. */
  elsewhere(claims: readonly Claim[]): Promise<ReadonlySet<Claim>>;
}

interface End {
  readonly state: number;
  readonly output: Uint8Array | null;
  readonly error: string;
}

export class RunningJobs implements Pick<Queue, "claim" | "renew" | "finish" | "release"> {
  readonly #machine: QueueMachine;
  readonly #bodies: StoredBodies;
  readonly #delays: DelayedJobs;
  readonly #rows: RunningRows;

  constructor(machine: QueueMachine, bodies: StoredBodies, delays: DelayedJobs, rows: RunningRows) {
    this.#machine = machine;
    this.#bodies = bodies;
    this.#delays = delays;
    this.#rows = rows;
    // It may have gone with its job.
    machine.claims.inputLost = ({ id: jobId, fence }) =>
      machine.keep(() => {
        const job = machine.live.held({ jobId, fence });
        if (job !== undefined) this.fail(job, INPUT_LOST);
      });
  }

  readonly claim = (
    endpointId: string,
    workerId: string,
    count: number,
    signal: AbortSignal,
  ): Promise<ClaimedJob[]> => {
    if (signal.aborted || count < 1) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const { claims, live } = this.#machine;
      this.#machine.check(endpointId);
      const endpoint = live.endpoint(endpointId);
      const claim: PendingClaim = { endpoint, workerId, signal, room: count, bytes: 0, given: [], resolve, reject };
      claims.add(claim);
      if (endpoint.inQueue > 0) this.#machine.feed(endpoint).catch((error) => claims.refuse(claim, error));
    });
  };

  readonly renew = async (claims: readonly Claim[]): Promise<Claim[]> => {
    const { live } = this.#machine;
    const gone = claims.filter((claim) => {
      const job = live.held(claim);
      if (job !== undefined) job.leaseUntil = live.lease();
      return job === undefined;
    });
    if (gone.length === 0) return gone;
    const elsewhere = await this.#rows.elsewhere(gone);
    return gone.filter((claim) => !elsewhere.has(claim));
  };

  readonly finish = (claim: Claim, outcome: Outcome): Promise<boolean> => {
    const job = this.#machine.live.held(claim);
    if (job === undefined) return this.#rows.notHeld(claim);
    this.#machine.live.ran(job);
    if (outcome.state === "FAILED" && outcome.again !== undefined) {
      const { error, again } = outcome;
      const waitMs = this.#waitBefore(job, again);
      if (waitMs !== undefined)
        return this.#orNotHeld(
          claim,
          this.#change(claim, (still) => this.#delay(still, waitMs, error, again)),
        );
    }
    const output = outcome.state === "TIMED_OUT" ? null : (outcome.output ?? null);
    const error = outcome.state === "COMPLETED" ? "" : outcome.error;
    const end: End = { state: FINAL_STATES[outcome.state], output, error };
    const errorBytes = error === "" ? null : Buffer.from(error);
    const finished = this.#bodies.keep(
      claim.jobId,
      [output, errorBytes],
      ([storedOutput, storedError]) => this.#finish(claim, end, storedOutput!, storedError!),
      {
        endpointId: job.endpoint.id,
        full: ({ message }) => {
          const text = `the job's result cannot be kept. ${message}`;
          return this.#finish(claim, { state: FAILED, output: null, error: text }, null, Buffer.from(text));
        },
      },
    );
    return this.#orNotHeld(claim, finished);
  };

  readonly release = async (claim: Claim, reason: "handed-back" | "lost", cause?: string): Promise<void> => {
    await this.#change(claim, (job) => (reason === "lost" ? this.lose(job, cause) : this.#requeue(job, 0)));
  };

  /** Those whose lease has passed are lost. Resolves how many. */
  expireLeases(): Promise<number> {
    const { live, monotonic } = this.#machine;
    return this.#machine.run(() => {
      const now = monotonic();
      const lost = [...live.running.values()].filter((job) => job.leaseUntil <= now);
      for (const job of lost) this.lose(job);
      return lost.length;
    });
  }

  /** The worker is gone: once more the first time, FAILED after that. Part of a batch. */
  lose(job: RunningJob, cause = ""): void {
    if (job.retries >= JOB_LOSSES_MAX) {
      this.fail(job, `worker lost after ${JOB_LOSSES_MAX} retry${cause === "" ? "" : `: ${cause}`}`);
      return;
    }
    this.#requeue(job, 1);
    this.#rows.retried(job.endpoint);
  }

  /** Part of a batch. */
  fail(job: RunningJob, error: string): void {
    this.#end(job, FAILED, null, Buffer.from(error), (finishedAt) =>
      jobOfRunning(job, null, { state: FAILED, error, finishedAt }),
    );
  }

  /** Once all that the job said is stored; false when the claim holds it no more by then. */
  #change(claim: Claim, change: (job: RunningJob) => void): Promise<boolean> {
    return this.#bodies.keep(claim.jobId, [], () =>
      this.#machine.run(() => {
        const job = this.#machine.live.held(claim);
        if (job !== undefined) change(job);
        return job !== undefined;
      }),
    );
  }

  /** Waits for nothing more where nobody else takes jobs: this is on the way of each. */
  #orNotHeld(claim: Claim, done: Promise<boolean>): Promise<boolean> {
    return this.#rows.isShared ? done.then((was) => was || this.#rows.notHeld(claim)) : done;
  }

  #finish(claim: Claim, end: End, output: Body | null, error: Body | null): Promise<boolean> {
    const work = () => {
      const job = this.#machine.live.held(claim);
      if (job === undefined) return false;
      this.#end(job, end.state, output, error, (finishedAt) =>
        jobOfRunning(job, end.output, { state: end.state, error: end.error, finishedAt }),
      );
      return true;
    };
    return this.#machine.run(work, { bytes: sizeInRow(output) + sizeInRow(error), ends: claim.jobId });
  }

  /** `whole` is the job for those who wait, as its bodies are at hand. */
  #end(
    job: RunningJob,
    state: number,
    output: Body | null,
    error: Body | null,
    whole: (finishedAt: number) => Job,
  ): void {
    const machine = this.#machine;
    const finishedAt = machine.clock();
    this.#rows.finished(job, state, output, error, finishedAt);
    machine.live.stopped(job, state);
    machine.named(job.endpoint, output, error);
    machine.unnamed(job.endpoint, job.outputFile);
    const isAwaited = machine.finals.has(job.id) || machine.chunks.has(job.id);
    const { id, endpoint, webhook } = job;
    const known = isAwaited ? whole(finishedAt) : undefined;
    machine.finished({ id, endpoint, state, webhook, times: job, finishedAt, job: known });
  }

  /** Queues a running job again, as it was. Its old fence is of no use any more: the next claim gets a higher one. */
  #requeue(job: RunningJob, losses: number): void {
    this.#rows.requeued(job, losses);
    this.#machine.live.stopped(job, IN_QUEUE);
    this.#machine.touch(job.endpoint);
  }

  /** Milliseconds until the next attempt; undefined when there is none: all were made, or it would be past the job's ttl. */
  #waitBefore(job: RunningJob, again: Again): number | undefined {
    if (job.attempts >= again.max) return undefined;
    const waitMs = Math.round(Math.min(again.delayMs * again.backoff ** job.attempts, again.maxDelayMs));
    const expiresAt = this.#rows.expiresAt(job);
    return expiresAt !== undefined && this.#machine.clock() + waitMs < expiresAt ? waitMs : undefined;
  }

  #delay(job: RunningJob, waitMs: number, error: string, { max }: Again): void {
    const dueAt = this.#machine.steady() + waitMs;
    this.#rows.delayed(job, dueAt);
    this.#machine.live.stopped(job, DELAYED);
    const { id, workerId, endpoint } = job;
    const attempt = { attempt: job.attempts + 1, of: max + 1 };
    this.#machine.delayed({ id, endpointId: endpoint.id, workerId, ...attempt, error, waitMs });
    this.#delays.expect(dueAt);
  }
}
