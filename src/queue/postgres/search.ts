/** How rows of jobs are found for a search, of those that expired too. */
import type { Place, SearchRows } from "../machine/search-jobs.ts";
import type { PostgresCore } from "./core.ts";
import { idsFrom, newest } from "./reads.ts";
import { type ListedRow, TABLES } from "./rows.ts";

export function searchRows(core: PostgresCore): SearchRows<ListedRow> {
  return {
    withIdStart: (start, limit) => idsFrom(core, start, limit, true),
    newest: (endpoints, states, before, limit) => newest(core, endpoints, states, before, limit, true),

    async placeBelow(before, rows) {
      const below = Object.values(TABLES).map(
        ({ table }) =>
          `(SELECT seq, created_at FROM ${table} WHERE seq < $1 ORDER BY seq DESC LIMIT 1 OFFSET ${rows - 1})`,
      );
      const [place] = await core.db.read<Place>(
        `SELECT * FROM (${below.join(" UNION ALL ")}) places ORDER BY seq DESC LIMIT 1`,
        [before],
      );
      return place;
    },

    between(floor, before, { numbers = null, stored = null, from, to, idStart = "" }, limit) {
      const lists = Object.values(TABLES).map(
        ({ table, columns }) => `(SELECT ${columns} FROM ${table} WHERE seq < $1 AND seq >= $2
          AND ($3::int[] IS NULL OR endpoint = ANY($3)) AND ($4::int[] IS NULL OR state = ANY($4))
          AND created_at >= $5 AND created_at <= $6 AND ($7 = '' OR starts_with(id, $7) OR starts_with(id, 'sync-' || $7))
          ORDER BY seq DESC LIMIT $8)`,
      );
      const values = [before, floor, numbers, stored, from, to, idStart, limit];
      return core.db.read<ListedRow>(`SELECT * FROM (${lists.join(" UNION ALL ")}) j`, values);
    },

    errorOf: ({ error }) => error,
  };
}
