/**
 * Rows in memory while work changes them. A row that was read or made is one object, whoever works with it, so that each piece
 * of work of a batch sees what those before it did; what is sent is the difference between where a row was and where it is.
 */
import { type Body, IN_PROGRESS, type JobRow } from "../machine/job-row.ts";

export type Place = "new" | "open" | "done" | "gone";

export interface JobRecord extends JobRow {
  state: number;
  fence: number;
  retries: number;
  attempts: number;
  worker_id: string;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
  expires_at: number;
  due_at: number | null;
  readonly ttl_ms: number;
  /** Of its idempotency; "" for none. */
  readonly key: string;
  /** undefined: in the database only. */
  input: Body | undefined;
  output: Body | null;
  error: Body | null;
  /** Where it is in the database, and under which fence. */
  stored: "new" | "open" | "done";
  storedFence: number;
  isGone: boolean;
}

/** As it is read (rows.ts). */
export interface ReadRow extends JobRow {
  readonly ttl_ms: number;
  readonly key: string;
  readonly input?: Uint8Array | null;
  readonly input_ref: string | null;
  readonly output_ref: string | null;
  readonly error_ref: string | null;
}

export function recordOf(read: ReadRow, stored: "open" | "done"): JobRecord {
  const { input, input_ref, output_ref, error_ref, ...row } = read;
  return {
    ...row,
    input: input_ref ?? input ?? undefined,
    output: output_ref,
    error: error_ref,
    stored,
    storedFence: row.fence,
    isGone: false,
  };
}

export function placeOf(record: JobRecord): Place {
  if (record.isGone) return "gone";
  return record.state > IN_PROGRESS ? "done" : "open";
}
