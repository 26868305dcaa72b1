/**
 * What is kept of final jobs whose rows are gone: that they ran, when and how they ended, without their bodies. A sweep writes it
 * where it deletes the row. Rows are numbered in the order they were written, which is the order they go in.
 */
import { errorLine } from "../../domain/job.ts";
import { DELETE_BATCH_ROWS, EXPIRED_ERROR_MAX_CHARS, EXPIRED_KEPT_MS } from "../../domain/limits.ts";
import { type Body, CANCELLED, COMPLETED, FAILED, type JobRow, TIMED_OUT } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { QueueCore } from "./core.ts";

const FINAL_STATES = [COMPLETED, FAILED, TIMED_OUT, CANCELLED];

/** What is kept of a failed job's error: the type and the first line. One that lies in a file is not read for it. */
export function lineOfError(core: QueueCore, { seq, state }: JobRow): string {
  if (state !== FAILED && state !== TIMED_OUT) return "";
  const { error } = core.sql.resultBodies.get(seq) as { error: Body | null };
  if (error === null || typeof error === "string") return "";
  return errorLine(
    Buffer.from(error.buffer, error.byteOffset, error.byteLength).toString("utf8"),
    EXPIRED_ERROR_MAX_CHARS,
  );
}

/** Part of a batch that deletes the row, and knew what lineOfError says of it. On a full disk what frees room comes first. */
export function keepExpired(core: QueueCore, row: JobRow, line: string): void {
  if (core.storage.lack !== undefined) return;
  const { seq, id, endpoint, state, retries, worker_id, created_at, started_at, finished_at, attempts } = row;
  const until = core.clock() + EXPIRED_KEPT_MS;
  const times = [created_at, started_at, finished_at, until];
  core.sql.keepExpired.run(seq, id, endpoint, state, retries, worker_id, ...times, attempts, line);
  core.expiredSince.add(core.live.of(endpoint));
}

/** Drops what was kept long enough, and of each endpoint and state the oldest of too many. */
export async function trimExpired(core: QueueCore): Promise<void> {
  const { sql, clock, bounds } = core;
  await inBatches(core, () => sql.dropExpired.run(clock(), DELETE_BATCH_ROWS));
  for (const endpoint of [...core.expiredSince]) {
    for (const state of FINAL_STATES) {
      const last = sql.surplusExpired.get(endpoint.number, state, bounds.expiredKeptMax) as { seq: number } | undefined;
      if (last === undefined) continue;
      await inBatches(core, () => sql.dropExpiredUpTo.run(endpoint.number, state, last.seq, DELETE_BATCH_ROWS));
    }
    core.expiredSince.delete(endpoint);
  }
}

/** Drops all of an endpoint. */
export async function forgetExpired(core: QueueCore, endpoint: EndpointState): Promise<void> {
  for (const state of FINAL_STATES) {
    const { number } = endpoint;
    await inBatches(core, () =>
      core.sql.dropExpiredUpTo.run(number, state, Number.MAX_SAFE_INTEGER, DELETE_BATCH_ROWS),
    );
  }
  core.expiredSince.delete(endpoint);
}

async function inBatches(core: QueueCore, drop: () => { changes: number | bigint }): Promise<void> {
  while ((await core.run(() => Number(drop().changes))) === DELETE_BATCH_ROWS);
}
