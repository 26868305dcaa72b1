/** What does not fit, and how that is said. */
import { SvcError } from "../../domain/errors.ts";
import { STREAM_ANSWER_MAX_BYTES, STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import type { LeftOut } from "../queue.ts";
import type { JobRow } from "./job-row.ts";
import type { EndpointState, RunningJob } from "./live-state.ts";
import type { QueueBounds } from "./machine.ts";

export function queueFull({ inQueue, delayed }: EndpointState): SvcError {
  return new SvcError("QUEUE_FULL", `${inQueue + delayed} jobs of this endpoint wait already: its queue is full.`, {
    help: "Submit again later, raise the endpoint's workers, or raise SVC_QUEUE_LIMIT.",
  });
}

export function takenOver(): SvcError {
  return new SvcError("SHUTTING_DOWN", "Another platform has taken over this database; this one has stopped.", {
    help: "Run one platform on a database. Give each its own in SVC_DATABASE_URL.",
  });
}

/** What is in memory is not to be trusted any more; who starts anew reads the rows into one of its own. */
export function unreadable(cause: unknown): SvcError {
  return new SvcError("INTERNAL", "The queue cannot go on with what it read again; the platform has stopped.", {
    help: "Start it again, with `svc platform start`. Nothing that was accepted is lost; please report it.",
    cause,
  });
}

/** How often the job had begun anew. */
export function runOf({ retries, attempts }: Pick<JobRow, "retries" | "attempts">): number {
  return retries + attempts;
}

/** What a chunk counts. */
export function costOf(bytes: number): number {
  return bytes + STREAM_CHUNK_COST_BYTES;
}

export interface Fitting<Chunk> extends LeftOut {
  readonly rows: readonly Chunk[];
  readonly more: boolean;
}

/** As many chunks, in order, as fit in an answer, and whether there are more; none where the first is larger than `chunkMaxBytes`. */
export function fitting<Chunk extends { readonly bytes: number }>(
  chunks: Iterable<Chunk>,
  chunkMaxBytes: number,
): Fitting<Chunk> {
  const rows: Chunk[] = [];
  let bytes = 0;
  for (const chunk of chunks) {
    bytes += costOf(chunk.bytes);
    const isFirst = rows.length === 0;
    if (isFirst && chunk.bytes > chunkMaxBytes) return { rows, more: true, leftOutBytes: chunk.bytes };
    if (!isFirst && bytes > STREAM_ANSWER_MAX_BYTES) return { rows, more: true };
    rows.push(chunk);
  }
  return { rows, more: false };
}

/** Why a running job may not add chunks that count so much, those on their way included; undefined when it may. */
export function excessOf(bounds: QueueBounds, job: RunningJob, more: number): string | undefined {
  const help = "read it while the job runs, or yield less";
  if (job.chunkBytes + more > bounds.streamKeptMax) {
    return `the job's stream is too large: more than ${bounds.streamKeptMax} bytes of its chunks wait or are kept (STREAM_KEPT_MAX_BYTES); ${help}`;
  }
  if (job.endpoint.chunkBytes + more > bounds.streamsKeptMax) {
    return `the streams of this endpoint's jobs are too large: more than ${bounds.streamsKeptMax} bytes of their chunks wait or are kept (STREAMS_KEPT_MAX_BYTES); ${help}`;
  }
  return undefined;
}
