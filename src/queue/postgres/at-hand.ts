/** Rows of jobs that are in memory, one record each: what runs, what is in heads, and until the batch is over what it read or made. */
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import { IN_PROGRESS } from "../machine/job-row.ts";
import type { Query } from "./connection.ts";
import { shardOfNumber } from "./ownership.ts";
import { type JobRecord, type ReadRow, recordOf } from "./records.ts";
import { findRow } from "./rows.ts";

export class RecordsAtHand {
  /** By id. */
  readonly #kept = new Map<string, JobRecord>();
  readonly #batch = new Map<string, JobRecord>();

  get(id: string): JobRecord | undefined {
    return this.#batch.get(id) ?? this.#kept.get(id);
  }

  /** Read or made by the batch. */
  add(record: JobRecord): void {
    this.#batch.set(record.id, record);
  }

  /** The one record of a row that was read. */
  adopt(row: ReadRow, place: "open" | "done"): JobRecord {
    const known = this.get(row.id);
    if (known !== undefined) return known;
    const record = recordOf(row, place);
    this.add(record);
    return record;
  }

  /** Reads the job's row for the work that comes. Resolves what its chunks count. */
  async need(query: Query, jobId: string): Promise<number> {
    const found = await findRow(query, jobId);
    if (found === undefined) return 0;
    const { place, chunk_bytes = 0, chunk_count = 0, ...row } = found;
    this.adopt(row, place);
    return chunk_bytes + chunk_count * STREAM_CHUNK_COST_BYTES;
  }

  keep(record: JobRecord): void {
    this.#kept.set(record.id, record);
  }

  clear(): void {
    this.#kept.clear();
    this.#batch.clear();
  }

  dropShards(shards: ReadonlySet<number>): void {
    for (const [id, { endpoint }] of this.#kept) if (shards.has(shardOfNumber(endpoint))) this.#kept.delete(id);
  }

  /** The batch was carried out. Of what it had, records stay as long as they are needed: those that `wait`, and those that `run`. */
  settle(changed: Iterable<JobRecord>, waits: (job: JobRecord) => boolean, runs: (job: JobRecord) => boolean): void {
    for (const record of [...changed, ...this.#batch.values()]) {
      record.stored = !record.isGone && record.state <= IN_PROGRESS ? "open" : "done";
      record.storedFence = record.fence;
      const isWaiting = waits(record);
      if (!isWaiting && typeof record.input !== "string") record.input = undefined;
      if (isWaiting || runs(record)) this.keep(record);
      else this.#kept.delete(record.id);
    }
    this.#batch.clear();
  }
}
