/** How rows of jobs are found for a search, of those that expired too. */
import { type Body, inRow, type JobRow } from "../machine/job-row.ts";
import type { Place, SearchRows } from "../machine/search-jobs.ts";
import type { QueueCore } from "./core.ts";
import { newestRows } from "./reads.ts";

export function searchRows(core: QueueCore): SearchRows<JobRow> {
  const { sql } = core;
  return {
    withIdStart: async (start, limit) =>
      [sql.anyIdsFrom, sql.anyExpiredIdsFrom].flatMap(
        (list) => list.all(start, `${start}~`, limit) as unknown as JobRow[],
      ),

    newest: async (endpoints, states, before, limit) =>
      endpoints.flatMap((endpoint) =>
        states.flatMap((state) => newestRows(core, endpoint, state, before, limit, true)),
      ),

    async placeBelow(before, rows) {
      const places = [sql.seqBelow, sql.expiredSeqBelow].map((below) => below.get(before, rows - 1));
      return (places as (Place | undefined)[]).reduce((nearest, other) =>
        other !== undefined && other.seq > (nearest?.seq ?? 0) ? other : nearest,
      );
    },

    async between(floor, before, { numbers, stored, from, to, idStart = "", error }, limit) {
      const lists = error === undefined ? [sql.searchJobs, sql.searchExpired] : [sql.searchJobs];
      const json = (list: readonly number[] | undefined) => (list === undefined ? null : JSON.stringify(list));
      const wanted = [json(numbers), json(stored), from, to, idStart];
      return lists.flatMap((list) => list.all(before, floor, ...wanted, limit) as unknown as JobRow[]);
    },

    // The row may have gone since it was found.
    errorOf: ({ seq }) =>
      inRow((sql.resultBodies.get(seq) as { readonly error: Body | null } | undefined)?.error ?? null),
  };
}
