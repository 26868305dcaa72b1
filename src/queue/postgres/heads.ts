/**
 * The first queued jobs of each endpoint, in memory, so that none is looked for by its state. A lane holds all queued jobs of
 * its priority up to a number; those behind it are in the rows only, and read on from there.
 */
import { QUEUE_HEADS_MAX_BYTES, QUEUE_READ_ROWS } from "../../domain/limits.ts";
import { IN_QUEUE } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { QueuedRow } from "../machine/pending-claims.ts";
import type { JobRecord } from "./records.ts";

interface Lane {
  /** By their numbers. */
  readonly jobs: JobRecord[];
  upTo: number;
}

export class Heads {
  readonly #lanes = new Map<EndpointState, readonly [normal: Lane, low: Lane]>();
  readonly #members = new Set<JobRecord>();
  #bytes = 0;

  clear(): void {
    this.#lanes.clear();
    this.#members.clear();
    this.#bytes = 0;
  }

  forget(endpoint: EndpointState): void {
    for (const { jobs } of this.#lanes.get(endpoint) ?? []) for (const job of jobs) this.#left(job);
    this.#lanes.delete(endpoint);
  }

  has(job: JobRecord): boolean {
    return this.#members.has(job);
  }

  /** A job begins to wait; it is not counted yet. */
  add(endpoint: EndpointState, job: JobRecord): void {
    const lane = this.#lane(endpoint, job.low_priority);
    const isWhole = waiting(endpoint, job.low_priority) === lane.jobs.length;
    const hasRoom = lane.jobs.length < QUEUE_READ_ROWS && this.#bytes < QUEUE_HEADS_MAX_BYTES;
    if (job.seq > lane.upTo && !(isWhole && hasRoom)) return;
    // What came back has its bytes in the row only: it is read again with those behind it.
    if (job.input === undefined) this.#cut(lane, job.seq);
    else {
      this.#insert(lane, job);
      lane.upTo = Math.max(lane.upTo, job.seq);
    }
  }

  /** A job waits no more. */
  remove(endpoint: EndpointState, job: JobRecord): void {
    if (!this.#members.has(job)) return;
    const { jobs } = this.#lane(endpoint, job.low_priority);
    jobs.splice(jobs.indexOf(job), 1);
    this.#left(job);
  }

  next(endpoint: EndpointState, count: number): QueuedRow[] {
    const [normal, low] = this.#both(endpoint);
    const isWhole = waiting(endpoint, 0) === normal.jobs.length;
    const jobs = normal.jobs.slice(0, count);
    // While normal jobs wait in the rows no other goes before them.
    if (isWhole && jobs.length < count) jobs.push(...low.jobs.slice(0, count - jobs.length));
    return jobs as QueuedRow[];
  }

  /** Where to read on when so many jobs are wanted: in the first lane that has too few of its jobs in memory. */
  lacking(
    endpoint: EndpointState,
    wanted: number,
  ): { readonly lowPriority: number; readonly after: number } | undefined {
    let left = wanted;
    for (const [lowPriority, { jobs, upTo }] of this.#both(endpoint).entries()) {
      if (jobs.length >= left) return undefined;
      if (waiting(endpoint, lowPriority) > jobs.length) return { lowPriority, after: upTo };
      left -= jobs.length;
    }
    return undefined;
  }

  /** What was read behind `after`, in order. Jobs that are in memory otherwise may have left the queue since. */
  filled(endpoint: EndpointState, lowPriority: number, jobs: readonly JobRecord[], after: number): void {
    const lane = this.#lane(endpoint, lowPriority);
    if (lane.upTo !== after) return;
    for (const job of jobs) {
      if (job.state === IN_QUEUE && !job.isGone) this.#insert(lane, job);
      lane.upTo = job.seq;
    }
  }

  oldest(endpoint: EndpointState, lowPriority: number): JobRecord | undefined {
    return this.#lanes.get(endpoint)?.[lowPriority]?.jobs[0];
  }

  #both(endpoint: EndpointState): readonly [Lane, Lane] {
    const known = this.#lanes.get(endpoint);
    if (known !== undefined) return known;
    const lanes: [Lane, Lane] = [
      { jobs: [], upTo: 0 },
      { jobs: [], upTo: 0 },
    ];
    this.#lanes.set(endpoint, lanes);
    return lanes;
  }

  #lane(endpoint: EndpointState, lowPriority: number): Lane {
    return this.#both(endpoint)[lowPriority]!;
  }

  #insert({ jobs }: Lane, job: JobRecord): void {
    let index = jobs.length;
    while (index > 0 && jobs[index - 1]!.seq > job.seq) index--;
    jobs.splice(index, 0, job);
    this.#members.add(job);
    this.#bytes += sizeInMemory(job);
  }

  /** From this number on jobs are in the rows only. */
  #cut(lane: Lane, seq: number): void {
    while (lane.jobs.length > 0 && lane.jobs.at(-1)!.seq > seq) this.#left(lane.jobs.pop()!);
    lane.upTo = Math.min(lane.upTo, seq - 1);
  }

  #left(job: JobRecord): void {
    this.#members.delete(job);
    this.#bytes -= sizeInMemory(job);
  }
}

function waiting({ inQueue, inQueueLowPriority }: EndpointState, lowPriority: number): number {
  return lowPriority === 1 ? inQueueLowPriority : inQueue - inQueueLowPriority;
}

function sizeInMemory({ input }: JobRecord): number {
  return typeof input === "object" ? input.byteLength : 0;
}
