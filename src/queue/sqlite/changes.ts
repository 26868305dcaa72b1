/** The side of the queue that changes jobs. A job that finds a waiting claim is inserted as IN_PROGRESS: one write. */
import { SvcError } from "../../domain/errors.ts";
import type { Claim, ClaimedJob, NewJob, Queue } from "../queue.ts";
import type { QueueCore } from "./core.ts";
import {
  COMPLETED,
  type EndpointState,
  FAILED,
  IN_PROGRESS,
  IN_QUEUE,
  type RunningJob,
  TIMED_OUT,
} from "./live-state.ts";
import type { PendingClaim } from "./pending-claims.ts";
import { jobOfRunning } from "./rows.ts";
import type { Body } from "./statements.ts";
import type { StoredBodies } from "./stored-bodies.ts";
import { cancelJob, finishJob, loseJob, requeueJob, retryJob } from "./transitions.ts";

const FIRST_FENCE = 1;
const FINAL_STATES = { COMPLETED, FAILED, TIMED_OUT } as const;

export type Changes = Omit<Queue, "purge" | "cancel"> & { cancel(jobId: string): Promise<boolean> };

export function queueChanges(core: QueueCore, bodies: StoredBodies): Changes {
  return {
    enqueue: (job) =>
      core.offer(() =>
        bodies.store(job.id, [job.input], ([input]) => core.run(() => insertJob(core, job, input!)), {
          endpointId: job.endpointId,
          full: async (error) => {
            const id = earlierJobOr(core, job, core.live.endpoints.get(job.endpointId)?.number ?? 0, () => error);
            return { id, created: false };
          },
        }),
      ),

    claim(endpointId, workerId, count, signal) {
      if (signal.aborted || count < 1) return Promise.resolve([]);
      return new Promise<ClaimedJob[]>((resolve, reject) => {
        const endpoint = core.live.endpoint(endpointId);
        const claim: PendingClaim = { endpoint, workerId, signal, room: count, bytes: 0, given: [], resolve, reject };
        core.claims.add(claim);
        if (endpoint.inQueue > 0) {
          core.keep(() => core.touch(endpoint)).catch((error) => core.claims.refuse(claim, error));
        }
      });
    },

    renew: async (claims) => claims.filter((claim) => !renewClaim(core, claim)),

    finish(claim, outcome) {
      const job = held(core, claim);
      if (job === undefined) return Promise.resolve(false);
      const output = outcome.state === "TIMED_OUT" ? null : (outcome.output ?? null);
      const error = outcome.state === "COMPLETED" ? "" : outcome.error;
      const end: End = { state: FINAL_STATES[outcome.state], output, error };
      const errorBytes = error === "" ? null : Buffer.from(error);
      return bodies.keep(
        claim.jobId,
        [output, errorBytes],
        ([storedOutput, storedError]) => finishClaimed(core, claim, end, storedOutput!, storedError!),
        {
          endpointId: job.endpoint.id,
          full: ({ message }) => {
            const text = `the job's result cannot be kept. ${message}`;
            return finishClaimed(core, claim, { state: FAILED, output: null, error: text }, null, Buffer.from(text));
          },
        },
      );
    },

    release: (claim, reason, cause) =>
      bodies.keep(claim.jobId, [], () =>
        core.run(() => {
          const job = held(core, claim);
          if (job === undefined) return;
          if (reason === "lost") loseJob(core, job, cause);
          else requeueJob(core, job, 0);
        }),
      ),

    cancel: (jobId) => core.offer(() => core.run(() => cancelJob(core, jobId))),
    retry: (jobId) => core.offer(() => core.run(() => retryJob(core, jobId))),
  };
}

interface End {
  readonly state: number;
  readonly output: Uint8Array | null;
  readonly error: string;
}

function finishClaimed(core: QueueCore, claim: Claim, end: End, output: Body | null, error: Body | null) {
  return core.run(() => {
    const job = held(core, claim);
    if (job === undefined) return false;
    finishJob(core, job, end.state, output, error, (finishedAt) =>
      jobOfRunning(job, end.output, { state: end.state, error: end.error, finishedAt }),
    );
    return true;
  });
}

/** The running job a claim still holds; undefined when its fence is stale. */
export function held(core: QueueCore, claim: Claim): RunningJob | undefined {
  const job = core.live.running.get(claim.jobId);
  return job?.fence === claim.fence ? job : undefined;
}

function insertJob(core: QueueCore, job: NewJob, input: Body): { id: string; created: boolean } {
  const { live } = core;
  const endpoint = live.endpoint(job.endpointId);
  live.number(endpoint);
  if (endpoint.inQueue >= core.bounds.queuedMax) {
    return { id: earlierJobOr(core, job, endpoint.number, () => queueFull(endpoint)), created: false };
  }
  const now = core.clock();
  // Only when nothing waits before it: a job that came back in the same batch goes first.
  const claim = endpoint.inQueue === 0 ? core.claims.next(endpoint) : undefined;
  const seq = live.nextSeq();
  try {
    core.sql.insert.run(
      seq,
      job.id,
      endpoint.number,
      claim === undefined ? IN_QUEUE : IN_PROGRESS,
      job.lowPriority ? 1 : 0,
      claim === undefined ? 0 : FIRST_FENCE,
      claim?.workerId ?? "",
      now,
      claim === undefined ? null : now,
      now + job.ttlMs,
      job.ttlMs,
      job.retentionMs,
      job.executionTimeoutMs,
      job.method,
      job.webhook,
      job.idempotencyKey === "" ? null : job.idempotencyKey,
      input,
    );
  } catch (error) {
    return { id: earlierJob(core, job, endpoint, error), created: false };
  }
  core.named(endpoint, input);
  if (claim === undefined) {
    live.count(endpoint, IN_QUEUE, job.lowPriority, 1);
    core.touch(endpoint);
    return { id: job.id, created: true };
  }
  const running: RunningJob = {
    seq,
    id: job.id,
    endpoint,
    fence: FIRST_FENCE,
    workerId: claim.workerId,
    lowPriority: job.lowPriority,
    retries: 0,
    createdAt: now,
    startedAt: now,
    retentionMs: job.retentionMs,
    executionTimeoutMs: job.executionTimeoutMs,
    method: job.method,
    webhook: job.webhook,
    leaseUntil: live.lease(),
    chunkBytes: 0,
    outputFile: null,
  };
  live.started(running);
  core.claims.give(claim, running, typeof input === "string" ? job.input : input);
  return { id: job.id, created: true };
}

/** The job that holds the idempotency key; throws `refusal` when there is none. */
function earlierJobOr(core: QueueCore, job: NewJob, endpoint: number, refusal: () => SvcError): string {
  const earlier = core.sql.byIdempotencyKey.get(endpoint, job.idempotencyKey || null);
  if (earlier !== undefined) return earlier.id as string;
  throw refusal();
}

function queueFull({ inQueue }: EndpointState): SvcError {
  return new SvcError("QUEUE_FULL", `${inQueue} jobs of this endpoint wait already: its queue is full.`, {
    help: "Submit again later, raise the endpoint's workers, or raise SVC_QUEUE_LIMIT.",
  });
}

/** The job that holds the idempotency key which broke the insert; throws `error` when the cause was another. */
function earlierJob(core: QueueCore, job: NewJob, endpoint: EndpointState, error: unknown): string {
  if (job.idempotencyKey !== "") {
    const earlier = core.sql.byIdempotencyKey.get(endpoint.number, job.idempotencyKey) as { id: string } | undefined;
    if (earlier !== undefined) return earlier.id;
  }
  if (core.sql.seqOf.get(job.id) === undefined) throw error;
  throw new SvcError("CONFLICT", `A job with the id ${job.id} exists already.`, { cause: error });
}

function renewClaim(core: QueueCore, claim: Claim): boolean {
  const job = held(core, claim);
  if (job === undefined) return false;
  job.leaseUntil = core.live.lease();
  return true;
}
