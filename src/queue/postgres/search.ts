/**
 * Jobs of many endpoints, newest first by their number, which never changes: a page stays what it is while jobs come, end and expire.
 * Where endpoints and states are few, their indexes are merged; else the tables are walked in windows.
 */
import { isFinal, JOB_STATES, runsyncIdStart } from "../../domain/job.ts";
import {
  SEARCH_CLOCK_SLACK_MS,
  SEARCH_IDS_MAX,
  SEARCH_ROWS_MAX,
  SEARCH_STREAMS_MAX,
  SEARCH_WINDOW_ROWS,
} from "../../domain/limits.ts";
import { DELAYED, FAILED, IN_QUEUE, jobOfRow, TIMED_OUT } from "../machine/job-row.ts";
import type { FoundJobs, JobSearch } from "../queue.ts";
import type { PostgresCore } from "./core.ts";
import { bySeq, expiredJob, idsFrom, newest, text } from "./reads.ts";
import { type ListedRow, TABLES } from "./rows.ts";

/** Matching rows from [floor, before), newest first; `floor` is 0 when there is nothing below. */
interface Window {
  readonly rows: readonly ListedRow[];
  readonly floor: number;
  readonly looked: number;
  /** When the oldest of it was submitted. */
  readonly until: number;
}

interface Wanted extends JobSearch {
  readonly numbers: readonly number[] | undefined;
  /** As they are stored. */
  readonly stored: readonly number[] | undefined;
  readonly from: number;
  readonly to: number;
}

const END = { floor: 0, looked: 0, until: 0 };

export async function searchJobs(core: PostgresCore, search: JobSearch): Promise<FoundJobs> {
  const wanted = wantedOf(core, search);
  if (wanted.numbers?.length === 0 || wanted.stored?.length === 0) return { jobs: [], next: undefined };
  const next = await windows(core, wanted);
  const found: ListedRow[] = [];
  let before = search.before ?? Number.MAX_SAFE_INTEGER;
  for (let looked = 0; before > 0 && looked < SEARCH_ROWS_MAX; ) {
    const window = await next(before);
    for (const row of window.rows) {
      if (!matches(core, row, wanted)) continue;
      if (found.length === search.limit) return page(core, found, found.at(-1)!.seq);
      found.push(row);
    }
    looked += window.looked;
    before = window.until < wanted.from - SEARCH_CLOCK_SLACK_MS ? 0 : window.floor;
  }
  return page(core, found, before);
}

function wantedOf(core: PostgresCore, search: JobSearch): Wanted {
  const failed = (search.states ?? JOB_STATES).filter((state) => state === "FAILED" || state === "TIMED_OUT");
  const states = search.error === undefined ? search.states : failed;
  return {
    ...search,
    numbers: search.endpointIds?.flatMap((id) => core.live.endpoints.get(id)?.number || []),
    stored: states?.flatMap((state) => (state === "IN_QUEUE" ? [IN_QUEUE, DELAYED] : [JOB_STATES.indexOf(state)])),
    from: search.from ?? 0,
    to: search.to ?? Number.MAX_SAFE_INTEGER,
  };
}

/** How the next window below a number is found. */
async function windows(core: PostgresCore, wanted: Wanted): Promise<(before: number) => Promise<Window>> {
  const { idStart = "", numbers, stored } = wanted;
  if (idStart !== "") {
    const all = await beginning(core, idStart);
    if (all !== undefined) return async (before) => ({ rows: all.filter(({ seq }) => seq < before), ...END });
  }
  const endpoints = numbers ?? [...core.live.endpoints.values()].flatMap(({ number }) => number || []);
  const states = [
    ...new Set((stored ?? [...JOB_STATES.keys()]).map((state) => (state === DELAYED ? IN_QUEUE : state))),
  ];
  if (idStart === "" && endpoints.length * states.length <= SEARCH_STREAMS_MAX) {
    return (before) => mergedWindow(core, endpoints, states, before, wanted);
  }
  return (before) => walkedWindow(core, wanted, before);
}

/** All with such an id; undefined when they are too many for one look. */
async function beginning(core: PostgresCore, idStart: string): Promise<ListedRow[] | undefined> {
  const rows: ListedRow[] = [];
  for (const start of [idStart, runsyncIdStart(idStart)]) {
    const some = await idsFrom(core, start, SEARCH_IDS_MAX, true);
    if (some.length >= SEARCH_IDS_MAX) return undefined;
    rows.push(...some);
  }
  return bySeq(rows);
}

async function mergedWindow(
  core: PostgresCore,
  endpoints: readonly number[],
  states: readonly number[],
  before: number,
  { limit }: Wanted,
): Promise<Window> {
  const count = Math.min(SEARCH_WINDOW_ROWS, limit + 1);
  const rows = await newest(core, endpoints, states, before, count, true);
  const last = rows.at(-1);
  // Fewer than were asked for: no index has any more.
  return rows.length < count || last === undefined
    ? { ...END, rows, looked: rows.length }
    : { rows, floor: last.seq, looked: rows.length, until: last.created_at };
}

async function walkedWindow(core: PostgresCore, wanted: Wanted, before: number): Promise<Window> {
  const below = Object.values(TABLES).map(
    ({ table }) =>
      `(SELECT seq, created_at FROM ${table} WHERE seq < $1 ORDER BY seq DESC LIMIT 1 OFFSET ${SEARCH_WINDOW_ROWS - 1})`,
  );
  // The nearest end: no table is read beyond a window.
  const [end] = await core.db.read<{ seq: number; created_at: number }>(
    `SELECT * FROM (${below.join(" UNION ALL ")}) ends ORDER BY seq DESC LIMIT 1`,
    [before],
  );
  const { numbers = null, stored = null, idStart = "", from, to } = wanted;
  const count = wanted.error === undefined ? Math.min(SEARCH_WINDOW_ROWS, wanted.limit + 1) : SEARCH_WINDOW_ROWS;
  const lists = Object.values(TABLES).map(
    ({ table, columns }) => `(SELECT ${columns} FROM ${table} WHERE seq < $1 AND seq >= $2
      AND ($3::int[] IS NULL OR endpoint = ANY($3)) AND ($4::int[] IS NULL OR state = ANY($4))
      AND created_at >= $5 AND created_at <= $6 AND ($7 = '' OR starts_with(id, $7) OR starts_with(id, 'sync-' || $7))
      ORDER BY seq DESC LIMIT $8)`,
  );
  const values = [before, end?.seq ?? 0, numbers, stored, from, to, idStart, count];
  const rows = bySeq(await core.db.read<ListedRow>(`SELECT * FROM (${lists.join(" UNION ALL ")}) j`, values));
  // Of a list that was cut off, what is below its end is in the next window.
  const floor = rows.length < count ? (end?.seq ?? 0) : rows[count - 1]!.seq;
  return { rows: rows.slice(0, count), floor, looked: SEARCH_WINDOW_ROWS, until: end?.created_at ?? 0 };
}

function matches(core: PostgresCore, row: ListedRow, { numbers, stored, from, to, error }: Wanted): boolean {
  if (row.created_at < from || row.created_at > to) return false;
  if (numbers !== undefined && !numbers.includes(row.endpoint)) return false;
  if (stored !== undefined && !stored.includes(row.state)) return false;
  if (error === undefined) return true;
  if (row.expired === 1 || (row.state !== FAILED && row.state !== TIMED_OUT)) return false;
  return error(text(row.error), core.live.of(row.endpoint).id);
}

function page(core: PostgresCore, rows: readonly ListedRow[], before: number): FoundJobs {
  const jobs = rows.map((row) => {
    const endpointId = core.live.of(row.endpoint).id;
    if (row.expired === 1) return { ...expiredJob(row, endpointId), expiresAt: null };
    const job = jobOfRow(row, endpointId, null, text(row.error));
    return { ...job, expiresAt: isFinal(job.state) ? row.expires_at : null };
  });
  return { jobs, next: before > 0 ? before : undefined };
}
