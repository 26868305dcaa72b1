/**
 * Jobs of many endpoints, newest first by their number, which never changes: a page stays what it is while jobs come, end and expire.
 * Where endpoints and states are few, their indexes are merged; else both tables are walked in windows, and the queue
 * has its turn between two of them. Nothing here writes, and no index is kept for it on jobs that are not final.
 */
import { setImmediate } from "node:timers/promises";
import { isFinal, JOB_STATES, runsyncIdStart } from "../../domain/job.ts";
import {
  SEARCH_CLOCK_SLACK_MS,
  SEARCH_IDS_MAX,
  SEARCH_ROWS_MAX,
  SEARCH_STREAMS_MAX,
  SEARCH_WINDOW_ROWS,
} from "../../domain/limits.ts";
import { type Body, DELAYED, FAILED, IN_QUEUE, type JobRow, jobOfRow, TIMED_OUT } from "../machine/job-row.ts";
import type { FoundJobs, JobSearch } from "../queue.ts";
import type { QueueCore } from "./core.ts";
import { expiredJob, inline, newestRows, text } from "./reads.ts";

/** Matching rows from [floor, before), newest first; `floor` is 0 when there is nothing below. */
interface Window {
  readonly rows: readonly JobRow[];
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

export async function searchJobs(core: QueueCore, search: JobSearch): Promise<FoundJobs> {
  const wanted = wantedOf(core, search);
  if (wanted.numbers?.length === 0 || wanted.stored?.length === 0) return { jobs: [], next: undefined };
  const next = windows(core, wanted);
  const found: JobRow[] = [];
  let before = search.before ?? Number.MAX_SAFE_INTEGER;
  for (let looked = 0; before > 0 && looked < SEARCH_ROWS_MAX; ) {
    const window = next(before);
    for (const row of window.rows) {
      if (!matches(core, row, wanted)) continue;
      if (found.length === search.limit) return page(core, found, found.at(-1)!.seq);
      found.push(row);
    }
    looked += window.looked;
    before = window.until < wanted.from - SEARCH_CLOCK_SLACK_MS ? 0 : window.floor;
    if (before > 0) await setImmediate();
  }
  return page(core, found, before);
}

function wantedOf(core: QueueCore, search: JobSearch): Wanted {
  const states = search.error === undefined ? search.states : failedOf(search.states);
  return {
    ...search,
    numbers: search.endpointIds?.flatMap((id) => core.live.endpoints.get(id)?.number || []),
    stored: states?.flatMap((state) => (state === "IN_QUEUE" ? [IN_QUEUE, DELAYED] : [JOB_STATES.indexOf(state)])),
    from: search.from ?? 0,
    to: search.to ?? Number.MAX_SAFE_INTEGER,
  };
}

/** Only these have an error. */
function failedOf(states: JobSearch["states"] = JOB_STATES): JobSearch["states"] {
  return states.filter((state) => state === "FAILED" || state === "TIMED_OUT");
}

/** How the next window below a number is found. */
function windows(core: QueueCore, wanted: Wanted): (before: number) => Window {
  const { idStart = "", numbers, stored } = wanted;
  if (idStart !== "") {
    const all = beginning(core, idStart);
    if (all !== undefined) return (before) => ({ rows: all.filter(({ seq }) => seq < before), ...END });
  }
  const endpoints = numbers ?? [...core.live.endpoints.values()].flatMap(({ number }) => number || []);
  const states = stored ?? [...JOB_STATES.keys()];
  if (idStart === "" && endpoints.length * states.length <= SEARCH_STREAMS_MAX) {
    return (before) => mergedWindow(core, endpoints, states, before, wanted);
  }
  return (before) => walkedWindow(core, wanted, before);
}

const END = { floor: 0, looked: 0, until: 0 };

/** All with such an id; undefined when they are too many for one look. */
function beginning({ sql }: QueueCore, idStart: string): JobRow[] | undefined {
  const rows: JobRow[] = [];
  for (const start of [idStart, runsyncIdStart(idStart)]) {
    for (const list of [sql.anyIdsFrom, sql.anyExpiredIdsFrom]) {
      const some = list.all(start, `${start}~`, SEARCH_IDS_MAX) as unknown as JobRow[];
      if (some.length === SEARCH_IDS_MAX) return undefined;
      rows.push(...some);
    }
  }
  return rows.sort((a, b) => b.seq - a.seq);
}

function mergedWindow(
  core: QueueCore,
  endpoints: readonly number[],
  states: readonly number[],
  before: number,
  { limit }: Wanted,
): Window {
  const count = Math.min(SEARCH_WINDOW_ROWS, limit + 1);
  const wanted = [...new Set(states.map((state) => (state === DELAYED ? IN_QUEUE : state)))];
  const rows = endpoints
    .flatMap((endpoint) => wanted.flatMap((state) => newestRows(core, endpoint, state, before, count, true)))
    .sort((a, b) => b.seq - a.seq)
    .slice(0, count);
  const last = rows.at(-1);
  // Fewer than were asked for: no index has any more.
  return rows.length < count || last === undefined
    ? { ...END, rows, looked: rows.length }
    : { rows, floor: last.seq, looked: rows.length, until: last.created_at };
}

function walkedWindow({ sql }: QueueCore, wanted: Wanted, before: number): Window {
  type Place = { seq: number; created_at: number };
  const ends = [sql.seqBelow, sql.expiredSeqBelow].map(
    (below) => below.get(before, SEARCH_WINDOW_ROWS - 1) as Place | undefined,
  );
  // The nearer end: neither table is read beyond a window.
  const { seq: end, created_at: until } = ends.reduce<Place>(
    (nearest, other) => (other !== undefined && other.seq > nearest.seq ? other : nearest),
    { seq: 0, created_at: 0 },
  );
  const { numbers, stored, idStart = "", from, to } = wanted;
  const lists = wanted.error === undefined ? [sql.searchJobs, sql.searchExpired] : [sql.searchJobs];
  const count = wanted.error === undefined ? Math.min(SEARCH_WINDOW_ROWS, wanted.limit + 1) : SEARCH_WINDOW_ROWS;
  const json = (list: readonly number[] | undefined) => (list === undefined ? null : JSON.stringify(list));
  let floor = end;
  const rows = lists.flatMap((list) => {
    const some = list.all(before, end, json(numbers), json(stored), from, to, idStart, count) as unknown as JobRow[];
    if (some.length === count) floor = Math.max(floor, some.at(-1)!.seq);
    return some;
  });
  rows.sort((a, b) => b.seq - a.seq);
  return { rows: rows.filter(({ seq }) => seq >= floor), floor, looked: SEARCH_WINDOW_ROWS, until };
}

function matches(core: QueueCore, row: JobRow, { numbers, stored, from, to, error }: Wanted): boolean {
  if (row.created_at < from || row.created_at > to) return false;
  if (numbers !== undefined && !numbers.includes(row.endpoint)) return false;
  if (stored !== undefined && !stored.includes(row.state)) return false;
  if (error === undefined) return true;
  if (row.expired === 1 || (row.state !== FAILED && row.state !== TIMED_OUT)) return false;
  return error(text(inline(bodiesOf(core, row).error)), core.live.of(row.endpoint).id);
}

function bodiesOf({ sql }: QueueCore, { seq }: JobRow) {
  return sql.resultBodies.get(seq) as unknown as { readonly output: Body | null; readonly error: Body | null };
}

function page(core: QueueCore, rows: readonly JobRow[], before: number): FoundJobs {
  const jobs = rows.map((row) => {
    const endpointId = core.live.of(row.endpoint).id;
    if (row.expired === 1) return { ...expiredJob(row, endpointId), expiresAt: null };
    const job = jobOfRow(row, endpointId, null, text(inline(bodiesOf(core, row).error)));
    return { ...job, expiresAt: isFinal(job.state) ? row.expires_at : null };
  });
  return { jobs, next: before > 0 ? before : undefined };
}
