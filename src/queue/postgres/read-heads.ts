/** Reads on where an endpoint's first queued jobs in memory end, as far as its waiting claims want more. */
import { QUEUE_READ_ROWS } from "../../domain/limits.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { Query } from "./connection.ts";
import type { Heads } from "./heads.ts";
import type { JobRecord, ReadRow } from "./records.ts";
import { queuedAfter } from "./rows.ts";

interface Rows {
  readonly heads: Heads;
  adopt(row: ReadRow, place: "open"): JobRecord;
}

export async function readHeads(core: Rows, query: Query, endpoint: EndpointState): Promise<undefined> {
  if (endpoint.number === 0 || endpoint.claims.length === 0) return;
  const wanted = endpoint.claims.reduce((sum, { room }) => sum + room, 0);
  for (;;) {
    const lacking = core.heads.lacking(endpoint, wanted);
    if (lacking === undefined) return;
    const { lowPriority, after } = lacking;
    const rows = await queuedAfter(query, endpoint.number, lowPriority, after, QUEUE_READ_ROWS);
    if (rows.length === 0) return;
    const jobs = rows.map((row) => {
      const record = core.adopt(row, "open");
      record.input ??= row.input_ref ?? row.input!;
      return record;
    });
    core.heads.filled(endpoint, lowPriority, jobs, after);
  }
}
