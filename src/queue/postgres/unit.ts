/** What a batch changes, collected by its work and told apart when it is sent. */
import { type Body, COMPLETED } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { ScheduleState } from "../queue.ts";
import { type JobRecord, placeOf } from "./records.ts";
import * as parts from "./statement.ts";

type Changes = Map<parts.Part<never>, readonly unknown[]>;

export class Unit {
  readonly jobs = new Set<JobRecord>();
  readonly progress = new Map<JobRecord, Body>();
  /** Whose counts may have changed. */
  readonly endpoints = new Set<EndpointState>();
  readonly newEndpoints = new Set<EndpointState>();
  readonly goneEndpoints: number[] = [];
  /** Of rows that no endpoint above says. */
  readonly shards = new Set<number>();
  /** Job → the last chunk that goes. */
  readonly chunksOut = new Map<number, number>();
  /** By the number of the job. */
  readonly hooksIn = new Map<number, parts.Row>();
  readonly hooksOut = new Set<number>();
  /** Delivery → when it is due again; null: never. */
  readonly settled = new Map<number, number | null>();
  readonly schedules = new Map<string, ScheduleState | null>();
  /** References that no row has any more after the commit. */
  readonly refsGone: string[] = [];
  readonly #chunksIn = new Map<number, parts.Row[]>();
  readonly #keys = new Map<string, { readonly endpoint: number; readonly key: string; id: string | null }>();

  removed(endpoint: EndpointState, shard: number): void {
    if (!this.newEndpoints.delete(endpoint)) this.goneEndpoints.push(endpoint.number);
    this.shards.add(shard);
    this.endpoints.delete(endpoint);
  }

  addChunk(job: number, row: parts.Row): void {
    const rows = this.#chunksIn.get(job);
    if (rows === undefined) this.#chunksIn.set(job, [row]);
    else rows.push(row);
  }

  /** All of the job, also those of this batch. Returns the references among those. */
  dropChunks(job: number): string[] {
    const rows = this.#chunksIn.get(job) ?? [];
    this.#chunksIn.delete(job);
    this.chunksOut.set(job, Number.MAX_SAFE_INTEGER);
    return rows.flatMap((row) => (typeof row[4] === "string" ? [row[4]] : []));
  }

  /** The job that has the key by this batch; null when it is free again, undefined when the rows say. */
  keyHolder(endpoint: number, key: string): string | null | undefined {
    return this.#keys.get(`${endpoint} ${key}`)?.id;
  }

  holdKey(endpoint: number, key: string, id: string | null): void {
    this.#keys.set(`${endpoint} ${key}`, { endpoint, key, id });
  }

  changes(): Changes {
    const changes: Changes = new Map();
    const add = <T>(part: parts.Part<T>, ...items: T[]) => {
      const list = changes.get(part as parts.Part<never>) as T[] | undefined;
      if (list === undefined) changes.set(part as parts.Part<never>, items);
      else list.push(...items);
    };
    for (const job of this.jobs) {
      const part = partOf(job);
      if (part !== undefined) add(part, job);
    }
    for (const [job, output] of this.progress) {
      if (!this.jobs.has(job)) add(parts.PROGRESS, { ...job, output });
    }
    for (const rows of this.#chunksIn.values()) add(parts.CHUNK_IN, ...rows);
    for (const out of this.chunksOut) add(parts.CHUNK_OUT, out);
    for (const row of this.hooksIn.values()) add(parts.HOOK_IN, row);
    for (const job of this.hooksOut) add(parts.HOOK_OUT, [job]);
    for (const settled of this.settled) add(parts.HOOK_SETTLED, settled);
    for (const { endpoint, key, id } of this.#keys.values()) {
      if (id === null) add(parts.KEY_OUT, [endpoint, key]);
      else add(parts.KEY_IN, [endpoint, key, id]);
    }
    for (const number of this.goneEndpoints) add(parts.ENDPOINT_OUT, [number]);
    for (const [endpoint, state] of this.schedules) {
      if (state === null) add(parts.SCHEDULE_OUT, [endpoint]);
      else {
        const { spec, until, paused, tick, jobId } = state;
        add(parts.SCHEDULE_IN, [endpoint, spec, until, paused ? 1 : 0, tick, jobId]);
      }
    }
    return changes;
  }
}

/** How a job's row gets to where it is now. */
function partOf(job: JobRecord): parts.Part<JobRecord> | undefined {
  const place = placeOf(job);
  if (job.stored === "new" && place === "open") return isPlain(job) ? parts.PLAIN_IN : parts.OPEN_IN;
  if (job.stored === "open" && completes(job)) return parts.PLAIN_FINISH;
  if (job.stored === "new") return place === "done" ? parts.DONE_IN : undefined;
  if (job.stored === "open") return place === "open" ? parts.OPEN_UP : place === "done" ? parts.FINISH : parts.OPEN_OUT;
  return place === "open" ? parts.AGAIN : place === "done" ? parts.DONE_UP : parts.DONE_OUT;
}

function isPlain(job: JobRecord): boolean {
  const { retries, attempts, due_at, method, webhook, key, input } = job;
  if (retries !== 0 || attempts !== 0 || due_at !== null || typeof input === "string") return false;
  return method === "" && webhook === "" && key === "" && job.expires_at === job.created_at + job.ttl_ms;
}

/** Under the fence that it was handed out with: nothing else of it has changed since. */
function completes({ state, isGone, fence, storedFence, output, error }: JobRecord): boolean {
  return state === COMPLETED && !isGone && fence === storedFence && typeof output !== "string" && error === null;
}
