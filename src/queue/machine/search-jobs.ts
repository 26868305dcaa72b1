/**
 * Jobs of many endpoints, newest first by their number, which never changes: a page stays what it is while jobs come, end and expire.
 * Where endpoints and states are few, their indexes are merged; else the tables are walked in windows, and the queue
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
import type { FoundJobs, JobSearch } from "../queue.ts";
import { bySeq, DELAYED, expiredJob, FAILED, IN_QUEUE, type JobRow, jobOfRow, TIMED_OUT, textOf } from "./job-row.ts";
import type { LiveState } from "./live-state.ts";

/** A place among all rows, and when the one there was submitted. */
export interface Place {
  readonly seq: number;
  readonly created_at: number;
}

/** How rows are found, of jobs that expired too. Lists are in any order. */
export interface SearchRows<Row extends JobRow> {
  /** Some whose ids begin so, the last of them first. */
  withIdStart(start: string, limit: number): Promise<readonly Row[]>;
  /** The `limit` newest below a number, of these endpoints in these states; IN_QUEUE is said for DELAYED too. */
  newest(endpoints: readonly number[], states: readonly number[], before: number, limit: number): Promise<Row[]>;
  /** So many rows below a number, in the table where that is nearest; undefined when no table has so many. */
  placeBelow(before: number, rows: number): Promise<Place | undefined>;
  /** The newest from [floor, before) that are wanted, `limit` of each table; the wanted error apart. */
  between(floor: number, before: number, wanted: Wanted, limit: number): Promise<readonly Row[]>;
  /** What is at hand of a failed job's error. */
  errorOf(row: Row): Uint8Array | null;
}

export interface Wanted extends JobSearch {
  readonly numbers: readonly number[] | undefined;
  /** As they are stored. */
  readonly stored: readonly number[] | undefined;
  readonly from: number;
  readonly to: number;
}

/** Matching rows from [floor, before), newest first; `floor` is 0 when there is nothing below. */
interface Window<Row> {
  readonly rows: readonly Row[];
  readonly floor: number;
  readonly looked: number;
  /** When the oldest of it was submitted. */
  readonly until: number;
}

const END = { floor: 0, looked: 0, until: 0 };

export async function searchJobs<Row extends JobRow>(
  live: LiveState,
  source: SearchRows<Row>,
  search: JobSearch,
): Promise<FoundJobs> {
  const wanted = wantedOf(live, search);
  if (wanted.numbers?.length === 0 || wanted.stored?.length === 0) return { jobs: [], next: undefined };
  const page = (rows: readonly Row[], before: number) => pageOf(live, source, rows, before);
  const next = await windows(live, source, wanted);
  const found: Row[] = [];
  let before = search.before ?? Number.MAX_SAFE_INTEGER;
  for (let looked = 0; before > 0 && looked < SEARCH_ROWS_MAX; ) {
    const window = await next(before);
    for (const row of window.rows) {
      if (!matches(live, source, row, wanted)) continue;
      if (found.length === search.limit) return page(found, found.at(-1)!.seq);
      found.push(row);
    }
    looked += window.looked;
    before = window.until < wanted.from - SEARCH_CLOCK_SLACK_MS ? 0 : window.floor;
    if (before > 0) await setImmediate();
  }
  return page(found, before);
}

function wantedOf(live: LiveState, search: JobSearch): Wanted {
  const states = search.error === undefined ? search.states : failedOf(search.states);
  return {
    ...search,
    numbers: search.endpointIds?.flatMap((id) => live.numberOf(id) || []),
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
async function windows<Row extends JobRow>(
  live: LiveState,
  source: SearchRows<Row>,
  wanted: Wanted,
): Promise<(before: number) => Promise<Window<Row>>> {
  const { idStart = "", numbers, stored } = wanted;
  if (idStart !== "") {
    const all = await beginning(source, idStart);
    if (all !== undefined) return async (before) => ({ rows: all.filter(({ seq }) => seq < before), ...END });
    return (before) => walked(source, wanted, before);
  }
  const endpoints = numbers ?? live.numbers;
  const states = new Set((stored ?? [...JOB_STATES.keys()]).map((state) => (state === DELAYED ? IN_QUEUE : state)));
  return endpoints.length * states.size <= SEARCH_STREAMS_MAX
    ? (before) => merged(source, endpoints, [...states], before, wanted)
    : (before) => walked(source, wanted, before);
}

/** All with such an id; undefined when they are too many for one look. */
async function beginning<Row extends JobRow>(source: SearchRows<Row>, idStart: string): Promise<Row[] | undefined> {
  const rows: Row[] = [];
  for (const start of [idStart, runsyncIdStart(idStart)]) {
    const some = await source.withIdStart(start, SEARCH_IDS_MAX);
    if (some.length >= SEARCH_IDS_MAX) return undefined;
    rows.push(...some);
  }
  return rows.sort(bySeq);
}

async function merged<Row extends JobRow>(
  source: SearchRows<Row>,
  endpoints: readonly number[],
  states: readonly number[],
  before: number,
  { limit }: Wanted,
): Promise<Window<Row>> {
  const count = Math.min(SEARCH_WINDOW_ROWS, limit + 1);
  const rows = (await source.newest(endpoints, states, before, count)).sort(bySeq).slice(0, count);
  const last = rows.at(-1);
  // Fewer than were asked for: no index has any more.
  return rows.length < count || last === undefined
    ? { ...END, rows, looked: rows.length }
    : { rows, floor: last.seq, looked: rows.length, until: last.created_at };
}

async function walked<Row extends JobRow>(
  source: SearchRows<Row>,
  wanted: Wanted,
  before: number,
): Promise<Window<Row>> {
  const { seq: end, created_at: until } = (await source.placeBelow(before, SEARCH_WINDOW_ROWS)) ?? {
    seq: 0,
    created_at: 0,
  };
  const count = wanted.error === undefined ? Math.min(SEARCH_WINDOW_ROWS, wanted.limit + 1) : SEARCH_WINDOW_ROWS;
  const rows = [...(await source.between(end, before, wanted, count))].sort(bySeq);
  // Of a list that was cut off, what is below its end is in the next window.
  const floor = rows.length < count ? end : rows[count - 1]!.seq;
  return { rows: rows.slice(0, count), floor, looked: SEARCH_WINDOW_ROWS, until };
}

function matches<Row extends JobRow>(
  live: LiveState,
  source: SearchRows<Row>,
  row: Row,
  { numbers, stored, from, to, error }: Wanted,
): boolean {
  if (row.created_at < from || row.created_at > to) return false;
  if (numbers !== undefined && !numbers.includes(row.endpoint)) return false;
  if (stored !== undefined && !stored.includes(row.state)) return false;
  if (error === undefined) return true;
  if (row.expired === 1 || (row.state !== FAILED && row.state !== TIMED_OUT)) return false;
  return error(textOf(source.errorOf(row)), live.idOf(row.endpoint) ?? "");
}

function pageOf<Row extends JobRow>(
  live: LiveState,
  source: SearchRows<Row>,
  rows: readonly Row[],
  before: number,
): FoundJobs {
  const jobs = rows.flatMap((row) => {
    const endpointId = live.idOf(row.endpoint);
    // It was forgotten since the row was found.
    if (endpointId === undefined) return [];
    if (row.expired === 1) return { ...expiredJob(row, endpointId), expiresAt: null };
    const job = jobOfRow(row, endpointId, null, textOf(source.errorOf(row)));
    return { ...job, expiresAt: isFinal(job.state) ? row.expires_at : null };
  });
  return { jobs, next: before > 0 ? before : undefined };
}
